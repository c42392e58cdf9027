// Tests DistributedDataParallel with wrong programs and hooks, and with parameters that are not trained.
#include <ddp/compression_hooks.h>
#include <ddp/distributed_data_parallel.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "runtime/backend/backends.h"
#include "support/catch.h"
#include "support/expect_error.h"
#include "support/mixed_model.h"
#include "support/rank_threads.h"
#include "support/scripted_backend.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

namespace {

// Fails in its second bucket.
class FailingHook : public CommunicationHook {
 public:
  Communication start(const ProcessGroup& group, const GradientBucket& bucket) override {
    if (++calls_ == 2) throw std::runtime_error("no memory for the hook");
    return mean_->start(group, bucket);
  }
  std::size_t finish(const ProcessGroup& group, const GradientBucket& bucket) override {
    return mean_->finish(group, bucket);
  }

 private:
  const std::shared_ptr<CommunicationHook> mean_ = make_mean_hook();
  int calls_ = 0;
};

}  // namespace

TEST_CASE("a failing hook ends the step, and no optimizer steps on unreduced gradients") {
  ScriptedGroup scripted;
  MixedModel model;
  DataParallelOptions options;
  options.exchange = std::make_shared<FailingHook>();
  options.buckets.first_bytes = options.buckets.bytes = 1;
  options.buckets.rebuild = false;
  DistributedDataParallel data_parallel(scripted.group, model.parameters, options);
  data_parallel.mark_ready(2);
  CHECK_THROWS_WITH(data_parallel.mark_ready(1), "no memory for the hook");
  CHECK_THROWS_WITH(data_parallel.mark_ready(0), "no memory for the hook");
  CHECK_THROWS_WITH(data_parallel.finish(), "no memory for the hook");
  CHECK_THROWS_WITH(data_parallel.require_synchronized("step"), "no memory for the hook");
}

TEST_CASE("a parameter that a rank did not use counts as 0, whatever its gradient contains") {
  GlooRanks(2).all_succeed([](GlooRanks::Rank& self) {
    MixedModel model;
    DataParallelOptions options;
    options.unused = UnusedParameters::find;
    DistributedDataParallel data_parallel(self.group(), model.parameters, options);
    for (const std::size_t i : {0, 1}) fill_gradient(data_parallel, i, 100.0F);
    data_parallel.mark_ready(0);
    if (self.rank() == 0) data_parallel.mark_ready(1);
    data_parallel.finish();
    require_gradient(data_parallel, 0, 100.0F);
    require_gradient(data_parallel, 1, 50.0F);
  });
}

TEST_CASE("frozen parameters are compared and broadcast to all ranks") {
  GlooRanks(2).all_succeed([](GlooRanks::Rank& self) {
    MixedModel model;
    std::vector<float> embedding(4, static_cast<float>(self.rank() + 7));
    DataParallelOptions options;
    options.frozen = {{"embedding", embedding, {4}}};
    DistributedDataParallel data_parallel(self.group(), model.parameters, options);
    require(embedding[3] == 7, "not rank 0's");
    data_parallel.verify_parameters();
    if (self.rank() == 1) embedding[3] = 8;
    expect_error(ErrorKind::mismatch, {"the parameters of rank 1 differ"}, [&] { data_parallel.verify_parameters(); });
    options.frozen[0].shape = self.rank() == 0 ? std::vector<std::int64_t>{4} : std::vector<std::int64_t>{2, 2};
    expect_error(ErrorKind::mismatch, {"'embedding' f32[4]", "f32[2x2]"},
                 [&] { DistributedDataParallel(self.group(), model.parameters, options); });
  });
}

TEST_CASE("each parameter needs a unique name") {
  ScriptedGroup scripted;
  std::vector<float> weight(2);
  expect_error(ErrorKind::invalid_argument, {"two parameters are named 'weight'"}, [&] {
    DistributedDataParallel(scripted.group, {{"weight", weight, {2}}, {"weight", weight, {2}}});
  });
  expect_error(ErrorKind::invalid_argument, {"has no name"}, [&] {
    DistributedDataParallel(scripted.group, {{"", weight, {2}}});
  });
}

TEST_CASE("models whose buckets are used in a different order on another rank are not averaged") {
  RankThreads(make_cpu_backend, 2)
      .all_fail(ErrorKind::mismatch, {"bucket 0: first", "bucket 0: second"}, [](RankThreads::Rank& self) {
        std::vector<float> weights(8);
        DistributedDataParallel first(self.group(), {{"first", weights, {8}}});
        DistributedDataParallel second(self.group(), {{"second", weights, {8}}});
        const bool swapped = self.rank() == 1;
        (swapped ? second : first).mark_ready(0);
        (swapped ? first : second).mark_ready(0);
        (swapped ? second : first).finish();
        (swapped ? first : second).finish();
      });
}

TEST_CASE("collectives of the library are reported at the program's own lines") {
  RankThreads(make_cpu_backend, 2).all_succeed([&](RankThreads::Rank& self) {
    std::vector<float> weights(8);
    DistributedDataParallel data_parallel(self.group(), {{"weight", weights, {8}}});
    const RankOutcome outcome = outcome_of([&] {
      if (self.rank() == 0) data_parallel.verify_parameters();
      data_parallel.mark_ready(0);
      data_parallel.finish();
    });
    require(outcome.kind == ErrorKind::mismatch, outcome.message);
    for (const char* part : {"all_gather", "'bucket 0: weight, step 1'", "data_parallel_faults_test.cpp:"}) {
      require(outcome.message.find(part) != std::string::npos, outcome.message);
    }
    for (const char* file : {"agreement.cpp", "mean_hook.cpp"}) {
      require(outcome.message.find(file) == std::string::npos, outcome.message);
    }
  });
}

TEST_CASE("a failed step is given up by all ranks, and the next one is complete") {
  GlooRanks(2).all_succeed([](GlooRanks::Rank& self) {
    MixedModel model;
    DistributedDataParallel data_parallel(self.group(), model.parameters, {.buckets = {.first_bytes = 1, .bytes = 1}});
    data_parallel.abandon_step();  // there is no step
    for (int step = 0; step < 3; ++step) {
      fill_gradient(data_parallel, 2, 9.0);
      data_parallel.mark_ready(2);  // the bucket is in progress
      expect_error(ErrorKind::invalid_argument, {"abandon_step"}, [&] { data_parallel.zero_gradients(); });
      data_parallel.abandon_step();
      expect_error(ErrorKind::invalid_argument, {"finish() was not called"},
                   [&] { data_parallel.require_synchronized("step"); });
      data_parallel.zero_gradients();
      for (const std::size_t i : {0, 1}) fill_gradient(data_parallel, i, static_cast<float>(self.rank()));
      fill_gradient(data_parallel, 2, 1.0);
      for (const std::size_t i : {2, 1, 0}) data_parallel.mark_ready(i);
      data_parallel.finish();
      require_gradient(data_parallel, 0, 0.5F);
      require_gradient(data_parallel, 2, 1.0);
    }
  });
}

TEST_CASE("a rank that gives up a step alone gets a mismatch with a rank that ends it") {
  RankThreads(make_cpu_backend, 2).all_fail(ErrorKind::mismatch, {"an abandoned step"}, [](RankThreads::Rank& self) {
    MixedModel model;
    DistributedDataParallel data_parallel(self.group(), model.parameters, {.buckets = {.first_bytes = 1, .bytes = 1}});
    data_parallel.mark_ready(2);
    if (self.rank() == 0) data_parallel.abandon_step();
    data_parallel.mark_ready(1);
    data_parallel.mark_ready(0);
    data_parallel.finish();
  });
}
