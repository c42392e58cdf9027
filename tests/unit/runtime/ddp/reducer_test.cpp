#include "runtime/ddp/reducer.h"

#include <ddp/error.h>

#include <algorithm>
#include <future>
#include <thread>
#include <utility>

#include "support/backends_under_test.h"
#include "support/catch.h"
#include "support/expect_error.h"
#include "support/made_page.h"
#include "support/made_ring.h"
#include "support/rank_threads.h"
#include "support/scripted_backend.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;
using Calls = std::vector<std::string>;

namespace {

std::vector<Tensor> tensors(std::span<const ParameterSize> sizes) {
  std::vector<Tensor> result;
  for (const auto& [type, count] : sizes) {
    result.push_back({"p" + std::to_string(result.size()), {nullptr, count, type}, {static_cast<std::int64_t>(count)}});
  }
  return result;
}

ReducerOptions with_limits(std::size_t first_bytes, std::size_t bytes) {
  ReducerOptions options;
  options.buckets = {.first_bytes = first_bytes, .bytes = bytes};
  options.hook = make_mean_hook();
  return options;
}

// Has four parameters with a bucket each. The bucket of the last parameter is reduced first.
class FourBuckets {
 public:
  explicit FourBuckets(const ReducerOptions& options = without_rebuilding())
      : reducer_(std::make_unique<Reducer>(scripted_.group, tensors(kSizes), options)) {}

  Reducer& reducer() { return *reducer_; }
  Script& script() { return *scripted_.script; }
  ProcessGroup& group() { return scripted_.group; }
  void destroys_reducer() { reducer_.reset(); }
  void steps(const std::vector<std::size_t>& order) {
    for (const std::size_t parameter : order) REQUIRE(reducer_->mark_ready(parameter));
    reducer_->finish();
  }
  // Returns the calls of the backend since the last time.
  Calls new_calls() {
    const Calls all = script().calls();
    const Calls result(all.begin() + static_cast<std::ptrdiff_t>(seen_), all.end());
    seen_ = all.size();
    return result;
  }

  static ReducerOptions without_rebuilding() {
    ReducerOptions options = with_limits(1, 1);
    options.buckets.rebuild = false;
    return options;
  }

  static inline const std::vector<ParameterSize> kSizes = {
      {DataType::f32, 16}, {DataType::f32, 32}, {DataType::f64, 48}, {DataType::f32, 64}};
  static inline const Calls kPlanOrder = {"all_reduce average f32[64]", "all_reduce average f64[48]",
                                          "all_reduce average f32[32]", "all_reduce average f32[16]"};

 private:
  ScriptedGroup scripted_;
  std::unique_ptr<Reducer> reducer_;
  std::size_t seen_ = 0;
};

}  // namespace

TEST_CASE("buckets start in the order of the plan for any order of readiness") {
  std::vector<std::size_t> order = {0, 1, 2, 3};
  do {
    INFO("ready " << order[0] << order[1] << order[2] << order[3]);
    FourBuckets buckets;
    for (const std::size_t parameter : order) REQUIRE(buckets.reducer().mark_ready(parameter));
    buckets.reducer().finish();
    REQUIRE(buckets.script().calls() == FourBuckets::kPlanOrder);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("a bucket starts while others are still being filled") {
  FourBuckets buckets;
  buckets.reducer().mark_ready(3);
  REQUIRE(buckets.script().reaches(1));
  buckets.reducer().mark_ready(2);
  REQUIRE(buckets.script().reaches(2));
  CHECK(buckets.reducer().missing() == std::vector<std::size_t>{0, 1});
  buckets.reducer().mark_ready(0);
  buckets.reducer().mark_ready(1);
  buckets.reducer().finish();
}

TEST_CASE("a filled bucket waits for the buckets before it") {
  FourBuckets buckets;
  for (const std::size_t parameter : {0, 1, 2}) buckets.reducer().mark_ready(parameter);
  buckets.group().barrier().wait();
  CHECK(buckets.script().calls() == Calls{"barrier"});
  buckets.reducer().mark_ready(3);
  buckets.reducer().finish();
  CHECK(buckets.script().calls().size() == 5);
}

TEST_CASE("a parameter becomes ready once per step") {
  FourBuckets buckets;
  CHECK(buckets.reducer().mark_ready(1));
  CHECK_FALSE(buckets.reducer().mark_ready(1));
  CHECK(buckets.reducer().missing() == std::vector<std::size_t>{0, 2, 3});
  for (const std::size_t parameter : {0, 2, 3}) buckets.reducer().mark_ready(parameter);
  CHECK(buckets.reducer().missing().empty());
  buckets.reducer().finish();
  CHECK(buckets.reducer().missing().size() == 4);
  CHECK(buckets.reducer().mark_ready(1));
}

TEST_CASE("a failed bucket fails the step and aborts the buckets after it") {
  FourBuckets buckets;
  buckets.script().fail_at(2, ErrorKind::peer_lost);
  for (const std::size_t parameter : {3, 2, 1, 0}) buckets.reducer().mark_ready(parameter);
  expect_error(ErrorKind::peer_lost, {"#2", "as the script says"}, [&] { buckets.reducer().finish(); });
  Work after = buckets.group().barrier();
  expect_error(ErrorKind::aborted, {"barrier", "#2"}, [&] { after.wait(); });
  CHECK(buckets.script().calls().size() == 2);
}

TEST_CASE("a destroyed reducer waits for the reductions that write to its memory") {
  FourBuckets buckets;
  buckets.script().block();
  buckets.reducer().mark_ready(3);
  buckets.reducer().mark_ready(2);
  REQUIRE(buckets.script().reaches(1));
  auto destroyed = std::async(std::launch::async, [&] {
    buckets.destroys_reducer();
    return buckets.script().finished();
  });
  buckets.script().release();
  CHECK(destroyed.get() == 2);
}

TEST_CASE("a reducer whose step failed can be destroyed") {
  FourBuckets buckets;
  buckets.script().fail_at(1, ErrorKind::timeout);
  for (const std::size_t parameter : {0, 1, 2, 3}) buckets.reducer().mark_ready(parameter);
  buckets.destroys_reducer();
}

TEST_CASE("gradients begin at 0 and at multiples of 64 bytes and do not overlap") {
  ScriptedGroup scripted;
  const std::vector<ParameterSize> sizes = {{DataType::f32, 3}, {DataType::f32, 17}, {DataType::f64, 1}};
  Reducer reducer(scripted.group, tensors(sizes), with_limits(1 << 20, 1 << 20));
  CHECK(reducer.buckets().size() == 2);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const Buffer gradient = reducer.gradient(i).data;
    CHECK(gradient.count == sizes[i].count);
    CHECK(gradient.type == sizes[i].type);
    CHECK(reinterpret_cast<std::uintptr_t>(gradient.data) % 64 == 0);
  }
  for (float& value : reducer.gradient(0).data.as<float>()) CHECK(std::exchange(value, 1.0F) == 0.0F);
  for (float& value : reducer.gradient(1).data.as<float>()) CHECK(std::exchange(value, 2.0F) == 0.0F);
  CHECK(reducer.gradient(0).data.as<float>()[2] == 1.0F);
  reducer.zero();
  CHECK(reducer.gradient(0).data.as<float>()[2] == 0.0F);
  CHECK(reducer.gradient(1).data.as<float>()[16] == 0.0F);
}

TEST_CASE("parameters may become ready on several threads at once") {
  ScriptedGroup scripted;
  const std::vector<ParameterSize> sizes(64, {DataType::f32, 16});
  ReducerOptions options = with_limits(64, 256);
  options.buckets.rebuild = false;
  Reducer reducer(scripted.group, tensors(sizes), options);
  for (int step = 0; step < 20; ++step) {
    std::vector<std::thread> threads;
    for (std::size_t first = 0; first < 4; ++first) {
      threads.emplace_back([&, first] {
        for (std::size_t i = first; i < sizes.size(); i += 4) reducer.mark_ready(i);
      });
    }
    for (std::thread& thread : threads) thread.join();
    reducer.finish();
  }
  CHECK(scripted.script->calls().size() == 20 * reducer.buckets().size());
}

TEST_CASE("after the first step buckets follow the order of readiness without moving memory") {
  FourBuckets buckets(with_limits(1, 1));
  const void* place = buckets.reducer().gradient(0).data.data;
  buckets.steps({0, 1, 2, 3});
  CHECK(buckets.new_calls().back() == "broadcast 0 i64[4]");
  buckets.steps({3, 2, 1, 0});
  CHECK(buckets.new_calls() == Calls{"all_reduce average f32[16]", "all_reduce average f32[32]",
                                     "all_reduce average f64[48]", "all_reduce average f32[64]"});
  CHECK(buckets.reducer().gradient(0).data.data == place);
}

TEST_CASE("a bucket of gradients that are not adjacent is reduced in pieces") {
  FourBuckets buckets(with_limits(320, 1 << 20));
  buckets.steps({0, 3, 2, 1});
  buckets.new_calls();
  buckets.steps({0, 3, 2, 1});
  CHECK(buckets.new_calls() == Calls{"all_reduce average f32[64]", "all_reduce average f32[16]",
                                     "all_reduce average f64[48]", "all_reduce average f32[32]"});
}

TEST_CASE("an unsynchronised step reduces nothing") {
  FourBuckets buckets;
  buckets.reducer().plan_step({false, 1});
  buckets.steps({0, 1, 2, 3});
  buckets.steps({0, 1, 2, 3});
  CHECK(buckets.new_calls().empty());
  buckets.reducer().plan_step({true, 0.25});
  buckets.steps({0, 1, 2, 3});
  CHECK(buckets.new_calls().front() == "all_reduce premultiplied_sum f32[64]");
}

TEST_CASE("parameters that no rank uses are reported") {
  ReducerOptions options = with_limits(1, 1);
  options.unused = UnusedParameters::find;
  FourBuckets buckets(options);
  buckets.steps({3, 1});
  CHECK(buckets.new_calls() == Calls{"all_reduce average f32[64]", "all_reduce average f64[48]",
                                     "all_reduce average f32[32]", "all_reduce average f32[16]",
                                     "all_reduce max u8[4]"});
  CHECK(buckets.reducer().unused() == std::vector<std::size_t>{0, 2});
  // A use anywhere in an accumulation window counts.
  buckets.reducer().plan_step({false, 1});
  buckets.steps({0});
  buckets.reducer().plan_step({true, 1});
  buckets.steps({1});
  CHECK(buckets.reducer().unused() == std::vector<std::size_t>{2, 3});
}

TEST_CASE("a static graph is learnt in the first step") {
  ReducerOptions options = with_limits(1, 1);
  options.unused = UnusedParameters::static_graph;
  FourBuckets buckets(options);
  for (const std::size_t parameter : {3, 1, 3, 0}) REQUIRE(buckets.reducer().mark_ready(parameter));
  CHECK(buckets.new_calls().empty());
  buckets.reducer().finish();
  CHECK(buckets.new_calls().size() == 6);  // these are 4 buckets, the used parameters, and the order
  CHECK(buckets.reducer().unused() == std::vector<std::size_t>{2});
  // The order is now 1, 3, 0, 2.
  buckets.reducer().mark_ready(3);
  buckets.reducer().mark_ready(1);
  REQUIRE(buckets.script().reaches(7));
  CHECK(buckets.new_calls() == Calls{"all_reduce average f32[32]"});
  CHECK(buckets.reducer().mark_ready(3));
  CHECK_FALSE(buckets.reducer().mark_ready(3));
  CHECK_FALSE(buckets.reducer().mark_ready(2));
  CHECK(buckets.reducer().missing() == std::vector<std::size_t>{0});
  CHECK(buckets.reducer().mark_ready(0));
  CHECK(buckets.reducer().missing().empty());
  buckets.reducer().finish();
  CHECK(buckets.new_calls() ==
        Calls{"all_reduce average f32[64]", "all_reduce average f32[16]", "all_reduce average f64[48]"});
}

TEST_CASE("statistics cover synchronised steps only") {
  FourBuckets buckets;
  buckets.reducer().plan_step({false, 1});
  buckets.steps({0, 1, 2, 3});
  CHECK(buckets.reducer().statistics().steps == 0);
  buckets.reducer().plan_step({true, 1});
  buckets.steps({0, 1, 2, 3});
  buckets.steps({0, 1, 2, 3});
  const StepStatistics& statistics = buckets.reducer().statistics();
  CHECK(statistics.steps == 2);
  CHECK(statistics.bytes == 4 * (16 + 32 + 64) + 8 * 48);
  CHECK(statistics.exposed_seconds > 0);
  CHECK(statistics.communication_seconds > 0);
  CHECK(statistics.overlap_ratio() >= 0);
  buckets.reducer().reset_statistics();
  CHECK(buckets.reducer().statistics().steps == 0);
}

TEST_CASE("a synchronised step is recorded from the end of the previous one with its bucket names") {
  const MadePage page;
  const MadeRing made;
  const ProcessContext process{.page = page.map(), .ring = made.map()};
  RankThreads(cpu_near().make, 1).sharing(process).all_succeed([&](RankThreads::Rank& self) {
    const std::vector<ParameterSize> sizes = {{DataType::f32, 8}};
    Reducer reducer(self.group(), tensors(sizes), FourBuckets::without_rebuilding());
    for (int step = 0; step < 3; ++step) {
      reducer.mark_ready(0);
      reducer.finish();
    }
    reducer.plan_step({.synchronizes = false});
    reducer.mark_ready(0);
    reducer.finish();
  });
  std::vector<NewRecord> steps;
  std::vector<NewRecord> collectives;
  for (const NewRecord& record : made.take()) {
    if (record.kind == wire::RecordKind::step) steps.push_back(record);
    if (record.kind == wire::RecordKind::collective) collectives.push_back(record);
  }
  REQUIRE(steps.size() == 3);
  REQUIRE(collectives.size() == 3);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    CHECK(steps[i].number == i + 1);
    CHECK((i == 0 || steps[i].begin == steps[i - 1].end));
    CHECK((collectives[i].number == i + 1 && collectives[i].group == 0 && collectives[i].bytes == 32));
    CHECK(collectives[i].name == "bucket 0: p0");
    CHECK((collectives[i].begin >= steps[i].begin && collectives[i].end <= steps[i].end));
  }
}
