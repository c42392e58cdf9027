#include "runtime/ddp/reducer.h"

#include <ddp/error.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <future>
#include <thread>

#include "support/expect_error.h"
#include "support/scripted_backend.h"

using namespace ddp;
using namespace ddp::test;
using Calls = std::vector<std::string>;

namespace {

// Four parameters with a bucket each: the last parameter's is the first to be reduced.
class FourBuckets {
 public:
  FourBuckets() : reducer_(std::make_unique<Reducer>(scripted_.group, kSizes, BucketLimits{1, 1})) {}

  Reducer& reducer() { return *reducer_; }
  Script& script() { return *scripted_.script; }
  ProcessGroup& group() { return scripted_.group; }
  void destroys_reducer() { reducer_.reset(); }

  static inline const std::vector<ParameterSize> kSizes = {
      {DataType::f32, 16}, {DataType::f32, 32}, {DataType::f64, 48}, {DataType::f32, 64}};
  static inline const Calls kPlanOrder = {"all_reduce average f32[64]", "all_reduce average f64[48]",
                                          "all_reduce average f32[32]", "all_reduce average f32[16]"};

 private:
  ScriptedGroup scripted_;
  std::unique_ptr<Reducer> reducer_;
};

}  // namespace

TEST_CASE("buckets start in the plan's order whatever the order of readiness") {
  std::vector<std::size_t> order = {0, 1, 2, 3};
  do {
    INFO("ready " << order[0] << order[1] << order[2] << order[3]);
    FourBuckets buckets;
    for (const std::size_t parameter : order) REQUIRE(buckets.reducer().ready(parameter));
    buckets.reducer().finish();
    REQUIRE(buckets.script().calls() == FourBuckets::kPlanOrder);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("a bucket starts while others are still being filled") {
  FourBuckets buckets;
  buckets.reducer().ready(3);
  REQUIRE(buckets.script().reaches(1));
  buckets.reducer().ready(2);
  REQUIRE(buckets.script().reaches(2));
  CHECK(buckets.reducer().missing() == std::vector<std::size_t>{0, 1});
  buckets.reducer().ready(0);
  buckets.reducer().ready(1);
  buckets.reducer().finish();
}

TEST_CASE("a filled bucket waits for the buckets before it") {
  FourBuckets buckets;
  for (const std::size_t parameter : {0, 1, 2}) buckets.reducer().ready(parameter);
  buckets.group().barrier().wait();
  CHECK(buckets.script().calls() == Calls{"barrier"});
  buckets.reducer().ready(3);
  buckets.reducer().finish();
  CHECK(buckets.script().calls().size() == 5);
}

TEST_CASE("a parameter is ready once a step") {
  FourBuckets buckets;
  CHECK(buckets.reducer().ready(1));
  CHECK_FALSE(buckets.reducer().ready(1));
  CHECK(buckets.reducer().missing() == std::vector<std::size_t>{0, 2, 3});
  for (const std::size_t parameter : {0, 2, 3}) buckets.reducer().ready(parameter);
  CHECK(buckets.reducer().missing().empty());
  buckets.reducer().finish();
  CHECK(buckets.reducer().missing().size() == 4);
  CHECK(buckets.reducer().ready(1));
}

TEST_CASE("a failed bucket fails the step and what follows it is aborted") {
  FourBuckets buckets;
  buckets.script().fail_at(2, ErrorKind::peer_lost);
  for (const std::size_t parameter : {3, 2, 1, 0}) buckets.reducer().ready(parameter);
  expect_error(ErrorKind::peer_lost, {"#2", "as the script says"}, [&] { buckets.reducer().finish(); });
  Work after = buckets.group().barrier();
  expect_error(ErrorKind::aborted, {"barrier", "#2"}, [&] { after.wait(); });
  CHECK(buckets.script().calls().size() == 2);
}

TEST_CASE("a destroyed reducer waits for the reductions that write into its memory") {
  FourBuckets buckets;
  buckets.script().block();
  buckets.reducer().ready(3);
  buckets.reducer().ready(2);
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
  for (const std::size_t parameter : {0, 1, 2, 3}) buckets.reducer().ready(parameter);
  buckets.destroys_reducer();
}

TEST_CASE("gradients begin at 0 and at multiples of 64 bytes and do not overlap") {
  ScriptedGroup scripted;
  const std::vector<ParameterSize> sizes = {{DataType::f32, 3}, {DataType::f32, 17}, {DataType::f64, 1}};
  Reducer reducer(scripted.group, sizes, {1 << 20, 1 << 20});
  CHECK(reducer.bucket_count() == 2);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const Buffer gradient = reducer.gradient(i);
    CHECK(gradient.count == sizes[i].count);
    CHECK(gradient.type == sizes[i].type);
    CHECK(reinterpret_cast<std::uintptr_t>(gradient.data) % 64 == 0);
  }
  for (float& value : reducer.gradient(0).as<float>()) CHECK(std::exchange(value, 1.0F) == 0.0F);
  for (float& value : reducer.gradient(1).as<float>()) CHECK(std::exchange(value, 2.0F) == 0.0F);
  CHECK(reducer.gradient(0).as<float>()[2] == 1.0F);
  reducer.zero();
  CHECK(reducer.gradient(0).as<float>()[2] == 0.0F);
  CHECK(reducer.gradient(1).as<float>()[16] == 0.0F);
}

TEST_CASE("parameters become ready on several threads at once") {
  ScriptedGroup scripted;
  const std::vector<ParameterSize> sizes(64, {DataType::f32, 16});
  Reducer reducer(scripted.group, sizes, {64, 256});
  for (int step = 0; step < 20; ++step) {
    std::vector<std::thread> threads;
    for (std::size_t first = 0; first < 4; ++first) {
      threads.emplace_back([&, first] {
        for (std::size_t i = first; i < sizes.size(); i += 4) reducer.ready(i);
      });
    }
    for (std::thread& thread : threads) thread.join();
    reducer.finish();
  }
  CHECK(scripted.script->calls().size() == 20 * reducer.bucket_count());
}
