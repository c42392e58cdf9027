#include <ddp/distributed_data_parallel.h>
#include <ddp/gradient_accumulation.h>
#include <ddp/join.h>
#include <ddp/local_sgd.h>
#include <ddp/optimizer.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "support/catch.h"
#include "support/expect_error.h"
#include "support/mixed_model.h"
#include "support/rank_threads.h"
#include "support/scripted_backend.h"

using namespace ddp;
using namespace ddp::test;
using namespace std::chrono_literals;

namespace {

const DataParallelOptions kBucketEach{.buckets = {.first_bytes = 1, .bytes = 1}};

// Makes the model of one rank differ by `change`.
GlooRanks::Action with_different_model(int rank, const std::function<void(MixedModel&)>& change) {
  return [rank, change](GlooRanks::Rank& self) {
    MixedModel model;
    if (self.rank() == rank) change(model);
    DistributedDataParallel(self.group(), model.parameters);
  };
}

}  // namespace

TEST_CASE("a rank with a different model is named with the first difference on every rank") {
  GlooRanks ranks(3);
  SECTION("another name") {
    ranks.all_fail(ErrorKind::mismatch, {"rank 0 has 'bias' f32[3]", "rank 2 has 'offset' f32[3]"},
                   with_different_model(2, [](MixedModel& model) { model.parameters[1].name = "offset"; }));
  }
  SECTION("another shape of the same size") {
    ranks.all_fail(ErrorKind::mismatch, {"f32[4x3]", "rank 1 has 'weight' f32[3x4]"},
                   with_different_model(1, [](MixedModel& model) {
                     model.parameters[0].shape = {3, 4};
                   }));
  }
  SECTION("another type") {
    ranks.all_fail(ErrorKind::mismatch, {"'scale' f64[]", "rank 1 has 'scale' f32[]"},
                   with_different_model(1, [](MixedModel& model) {
                     model.parameters[2].data = {model.bias.data(), 1, DataType::f32};
                   }));
  }
  SECTION("another number of parameters") {
    ranks.all_fail(ErrorKind::mismatch, {"rank 0 has 'scale' f64[]", "rank 2 has nothing more"},
                   with_different_model(2, [](MixedModel& model) { model.parameters.pop_back(); }));
  }
  SECTION("another order") {
    ranks.all_fail(ErrorKind::mismatch, {"rank 1 has 'bias'"}, with_different_model(1, [](MixedModel& model) {
                     std::swap(model.parameters[0], model.parameters[1]);
                   }));
  }
  SECTION("rank 0 itself differs") {
    ranks.all_fail(ErrorKind::mismatch, {"rank 0 has 'offset'", "rank 1 has 'bias'"},
                   with_different_model(0, [](MixedModel& model) { model.parameters[1].name = "offset"; }));
  }
}

TEST_CASE("ranks with different bucket sizes get a mismatch") {
  GlooRanks(2).all_fail(ErrorKind::mismatch, {"DataParallelOptions", "rank 1 has buckets of 16 and 26214400"},
                        [](GlooRanks::Rank& self) {
                          std::vector<float> values(3);
                          DataParallelOptions options;
                          if (self.rank() == 1) options.buckets.first_bytes = 16;
                          DistributedDataParallel(self.group(), {{"bias", values, {3}}}, options);
                        });
}

TEST_CASE("an abandoned step ends with the timeout of its reductions") {
  GlooRanks(2, 2s).all_succeed([](GlooRanks::Rank& self) {
    MixedModel model;
    DistributedDataParallel data_parallel(self.group(), model.parameters, kBucketEach);
    if (self.rank() == 1) return self.waits_for_the_others();
    for (const std::size_t index : {2, 1, 0}) data_parallel.mark_ready(index);
    // There is no finish(), so the destructor waits for the operations in progress.
  });
}

TEST_CASE("a rank that exits during training is noticed by the others") {
  GlooRanks(3).all_succeed([](GlooRanks::Rank& self) {
    MixedModel model;
    {
      DistributedDataParallel data_parallel(self.group(), model.parameters, kBucketEach);
      for (int step = 0; step < 100; ++step) {
        if (self.rank() == 1 && step == 2) break;
        for (const std::size_t index : {2, 1, 0}) data_parallel.mark_ready(index);
        const RankOutcome outcome = outcome_of([&] { data_parallel.finish(); });
        if (!outcome.kind) continue;
        require(self.rank() != 1 && step >= 1, "too early: " + outcome.message);
        require(outcome.kind == ErrorKind::peer_lost || outcome.kind == ErrorKind::aborted, "not: " + outcome.message);
        const RankOutcome again = outcome_of([&] { self.group().barrier().wait(); });
        require(again.kind == ErrorKind::aborted, "not: " + again.message);
        return;
      }
    }
    require(self.rank() == 1, "nothing was noticed");
    self.leaves();
  });
}

TEST_CASE("a late rank makes the others time out") {
  GlooRanks(2, 2s).all_succeed([](GlooRanks::Rank& self) {
    MixedModel model;
    DistributedDataParallel data_parallel(self.group(), model.parameters);
    if (self.rank() == 1) return self.waits_for_the_others();
    for (const std::size_t index : {2, 1, 0}) data_parallel.mark_ready(index);
    const RankOutcome outcome = outcome_of([&] { data_parallel.finish(); });
    require(outcome.kind == ErrorKind::timeout, "not: " + outcome.message);
  });
}

TEST_CASE("a rank with invalid parameters fails at once, and the other ranks get the reason") {
  const auto ended = GlooRanks(3).outcomes([&](GlooRanks::Rank& self) {
    std::vector<float> bias(3);
    const std::int64_t size = self.rank() == 1 ? 4 : 3;
    DistributedDataParallel(self.group(), {{"bias", bias, {size}}});
  });
  for (std::size_t rank = 0; rank < ended.size(); ++rank) {
    INFO(ended[rank].message);
    CHECK(ended[rank].kind == (rank == 1 ? ErrorKind::invalid_argument : ErrorKind::mismatch));
    CHECK_THAT(ended[rank].message, Catch::Contains("has 3 elements, but its shape has 4"));
  }
}

TEST_CASE("invalid parameters are rejected") {
  ScriptedGroup scripted;
  MixedModel model;
  std::vector<std::int32_t> integers(3);
  const auto construct = [&](std::vector<Tensor> parameters) {
    DistributedDataParallel(scripted.group, std::move(parameters));
  };
  expect_error(ErrorKind::invalid_argument, {"no parameters"}, [&] { construct({}); });
  expect_error(ErrorKind::invalid_argument, {"'count' i32[3]", "floating-point"}, [&] {
    construct({{"count", integers, {3}}});
  });
  expect_error(ErrorKind::invalid_argument, {"'bias' f32[4]", "3 elements", "4"}, [&] {
    construct({{"bias", model.bias, {4}}});
  });
  expect_error(ErrorKind::invalid_argument, {"'bias' f32[3]", "GPU memory"}, [&] {
    construct({{"bias", {model.bias.data(), 3, DataType::f32, DeviceType::cuda}, {3}}});
  });
}

TEST_CASE("a gradient that is ready twice or never is named") {
  ScriptedGroup scripted;
  MixedModel model;
  DistributedDataParallel data_parallel(scripted.group, model.parameters);
  expect_error(ErrorKind::invalid_argument, {"no parameter 3"}, [&] { data_parallel.mark_ready(3); });
  data_parallel.mark_ready(1);
  expect_error(ErrorKind::invalid_argument, {"'bias' f32[3]", "finish()"}, [&] { data_parallel.mark_ready(1); });
  expect_error(ErrorKind::invalid_argument, {"weight, scale"}, [&] { data_parallel.finish(); });
  data_parallel.mark_ready(0);
  expect_error(ErrorKind::invalid_argument, {"never ready in this step: scale."}, [&] { data_parallel.finish(); });
  data_parallel.mark_ready(2);
  data_parallel.finish();
  data_parallel.mark_ready(1);  // this begins the next step
}

TEST_CASE("gradients have the size of their parameter and can be zeroed") {
  ScriptedGroup scripted;
  MixedModel model;
  DistributedDataParallel data_parallel(scripted.group, model.parameters);
  CHECK(data_parallel.bucket_count() == 2);
  CHECK(data_parallel.parameters().size() == 3);
  CHECK(data_parallel.gradient(0).count == 12);
  CHECK(data_parallel.gradient(2).type == DataType::f64);
  expect_error(ErrorKind::invalid_argument, {"f32", "f64"}, [&] { (void)data_parallel.gradient<double>(0); });
  expect_error(ErrorKind::invalid_argument, {"no parameter 99"}, [&] { (void)data_parallel.gradient(99); });
  fill_gradient(data_parallel, 0, 5.0F);
  data_parallel.zero_gradients();
  CHECK(data_parallel.gradient<float>(0)[11] == 0.0F);
}

TEST_CASE("every rank begins with the values of rank 0") {
  GlooRanks(3).all_succeed([](GlooRanks::Rank& self) {
    MixedModel model;
    model.fill(static_cast<float>(10 * self.rank()));
    const DistributedDataParallel data_parallel(self.group(), model.parameters);
    require(model.weight[11] == 0.0F && model.bias[2] == 1.0F && model.scale[0] == 2.0, "other values");
  });
}

TEST_CASE("gradients are averaged over all ranks in every step and in any order") {
  for (const int size : {1, 2, 3}) {
    for (const DataParallelOptions& options : {DataParallelOptions{}, kBucketEach}) {
      GlooRanks(size).all_succeed([&](GlooRanks::Rank& self) {
        MixedModel model;
        DistributedDataParallel data_parallel(self.group(), model.parameters, options);
        const double mean_rank = (size - 1) / 2.0;
        for (int step = 0; step < 6; ++step) {
          data_parallel.zero_gradients();
          fill_gradient(data_parallel, 0, static_cast<float>(self.rank() + step));
          fill_gradient(data_parallel, 1, static_cast<float>(2 * self.rank()));
          fill_gradient(data_parallel, 2, 3.0 * self.rank());
          for (int i = 0; i < 3; ++i) data_parallel.mark_ready(static_cast<std::size_t>(i + step + self.rank()) % 3);
          data_parallel.finish();
          require_gradient(data_parallel, 0, static_cast<float>(mean_rank + step));
          require_gradient(data_parallel, 1, static_cast<float>(2 * mean_rank));
          require_gradient(data_parallel, 2, 3 * mean_rank);
        }
      });
    }
  }
}

TEST_CASE("equal parameters have the same hash on every rank") {
  std::vector<std::uint64_t> hashes(3);
  GlooRanks(3).all_succeed([&](GlooRanks::Rank& self) {
    MixedModel model;
    model.fill(1);
    DistributedDataParallel data_parallel(self.group(), model.parameters);
    hashes[static_cast<std::size_t>(self.rank())] = data_parallel.verify_parameters();
  });
  CHECK(hashes[0] == hashes[1]);
  CHECK(hashes[0] == hashes[2]);
}

TEST_CASE("a rank whose parameters drifted is named on every rank") {
  for (const int drifting : {1, 2}) {
    GlooRanks(3).all_fail(ErrorKind::mismatch, {"rank " + std::to_string(drifting) + " differ"},
                          [&](GlooRanks::Rank& self) {
                            MixedModel model;
                            DistributedDataParallel data_parallel(self.group(), model.parameters);
                            if (self.rank() == drifting) model.bias[1] = 1e-30F;
                            data_parallel.verify_parameters();
                          });
  }
}

TEST_CASE("buffers come from rank 0 at first and later from any rank") {
  GlooRanks(3).all_succeed([](GlooRanks::Rank& self) {
    MixedModel model;
    std::vector<float> mean(2, static_cast<float>(self.rank()) + 1);
    std::vector<std::int64_t> batches(1, self.rank());
    DataParallelOptions options;
    options.model_buffers = {{"mean", mean, {2}}, {"batches", batches, {}}};
    DistributedDataParallel data_parallel(self.group(), model.parameters, options);
    require(mean[1] == 1.0F && batches[0] == 0, "not those of rank 0");
    mean[1] = static_cast<float>(10 + self.rank());
    data_parallel.broadcast_buffers(2);
    require(mean[1] == 12.0F, "not those of rank 2");
  });
}

TEST_CASE("ranks with different buffers or options get a mismatch") {
  GlooRanks ranks(2);
  ranks.all_fail(ErrorKind::mismatch, {"rank 0 has nothing more, rank 1 has 'mean' f32[3]"}, [](GlooRanks::Rank& self) {
    MixedModel model;
    DataParallelOptions options;
    if (self.rank() == 1) options.model_buffers = {{"mean", model.bias, {3}}};
    DistributedDataParallel(self.group(), model.parameters, options);
  });
  ranks.all_fail(ErrorKind::mismatch,
                 {"DataParallelOptions", "unused parameters: refuse, rank 1 has unused parameters: find"},
                 [](GlooRanks::Rank& self) {
                   MixedModel model;
                   DataParallelOptions options;
                   if (self.rank() == 1) options.unused = UnusedParameters::find;
                   DistributedDataParallel(self.group(), model.parameters, options);
                 });
}

TEST_CASE("a parameter unused on one rank gets the others' share, and one unused everywhere is reported") {
  GlooRanks(2).all_succeed([](GlooRanks::Rank& self) {
    MixedModel model;
    DataParallelOptions options = kBucketEach;
    options.unused = UnusedParameters::find;
    DistributedDataParallel data_parallel(self.group(), model.parameters, options);
    for (int step = 0; step < 3; ++step) {
      data_parallel.zero_gradients();
      fill_gradient(data_parallel, 0, 4.0F);
      data_parallel.mark_ready(0);
      if (self.rank() == 1) {
        fill_gradient(data_parallel, 1, 6.0F);
        data_parallel.mark_ready(1);
      }
      data_parallel.finish();
      require_gradient(data_parallel, 0, 4.0F);
      require_gradient(data_parallel, 1, 3.0F);
      require_gradient(data_parallel, 2, 0.0);
      const auto unused = data_parallel.unused_parameters();
      require(unused.size() == 1 && unused[0] == 2, "unused");
    }
  });
}

TEST_CASE("ranks whose gradients become ready in different orders keep rank 0's order after the first step") {
  GlooRanks(3).all_succeed([](GlooRanks::Rank& self) {
    MixedModel model;
    DistributedDataParallel data_parallel(self.group(), model.parameters, kBucketEach);
    using Buckets = std::vector<std::vector<std::size_t>>;
    require(data_parallel.buckets() == Buckets{{2}, {1}, {0}}, "the last parameter is not the first");
    for (int step = 0; step < 3; ++step) {
      fill_gradient(data_parallel, 0, static_cast<float>(self.rank()));
      fill_gradient(data_parallel, 1, static_cast<float>(self.rank() + 1));
      fill_gradient(data_parallel, 2, static_cast<double>(self.rank() + 2));
      std::vector<std::size_t> order = {1, 2, 0};
      std::rotate(order.begin(), order.begin() + self.rank(), order.end());
      for (const std::size_t index : order) data_parallel.mark_ready(index);
      data_parallel.finish();
      require_gradient(data_parallel, 0, 1.0F);
      require_gradient(data_parallel, 1, 2.0F);
      require_gradient(data_parallel, 2, 3.0);
      require(data_parallel.buckets() == Buckets{{1}, {2}, {0}}, "not rank 0's order");
    }
  });
}

TEST_CASE("half-precision gradients are averaged in single precision") {
  GlooRanks(3).all_succeed([](GlooRanks::Rank& self) {
    std::vector<BFloat16> values(4);
    DistributedDataParallel data_parallel(self.group(), {{"weight", values, {4}}});
    for (BFloat16& element : data_parallel.gradient<BFloat16>(0)) {
      element = BFloat16(static_cast<float>(self.rank() + 1));
    }
    data_parallel.mark_ready(0);
    data_parallel.finish();
    require(static_cast<float>(data_parallel.gradient<BFloat16>(0)[3]) == 2.0F, "mean");
  });
}

TEST_CASE("a parameter is found by name and has its index") {
  GlooRanks(2).all_succeed([](GlooRanks::Rank& self) {
    MixedModel model;
    DistributedDataParallel data_parallel(self.group(), model.parameters);
    const Parameter bias = data_parallel.parameter("bias");
    require(bias.index() == 1 && bias.values().name == "bias", "another parameter");
    bias.gradient<float>()[2] = static_cast<float>(self.rank());
    require(data_parallel.gradient<float>(1)[2] == static_cast<float>(self.rank()), "another gradient");
    bias.mark_ready();
    for (const std::size_t other : {0, 2}) data_parallel.parameter(other).mark_ready();
    bias.wait();
    require(bias.gradient<float>()[2] == 0.5F, "no mean");
    data_parallel.finish();
    self.group().barrier().wait();
  });
  ScriptedGroup scripted;
  MixedModel model;
  DistributedDataParallel data_parallel(scripted.group, model.parameters);
  expect_error(ErrorKind::invalid_argument, {"'heft'", "'weight'", "'bias'"},
               [&] { (void)data_parallel.parameter("heft"); });
  expect_error(ErrorKind::invalid_argument, {"no parameter 9"}, [&] { (void)data_parallel.parameter(9); });
}

TEST_CASE("gradients in the program's own array are averaged in place") {
  GlooRanks(2).all_succeed([](GlooRanks::Rank& self) {
    std::vector<float> first(3);
    std::vector<float> second(20);
    std::vector<float> gradients(23, 7);
    DistributedDataParallel data_parallel(self.group(), {{"first", first, {3}}, {"second", second, {20}}},
                                          {.buckets = {.first_bytes = 1, .bytes = 1}, .gradients = gradients});
    require(data_parallel.gradient(1).data == &gradients[3], "elsewhere");
    require(gradients[22] == 7, "not as they were");
    require(data_parallel.bucket_count() == 2, "not two buckets");
    for (int step = 0; step < 3; ++step) {
      data_parallel.zero_gradients();
      for (std::size_t i = 0; i < gradients.size(); ++i)
        gradients[i] = static_cast<float>(i) * (self.rank() == 0 ? 1 : 3);
      data_parallel.mark_ready(1);
      data_parallel.mark_ready(0);
      data_parallel.finish();
      for (std::size_t i = 0; i < gradients.size(); ++i) require(gradients[i] == static_cast<float>(2 * i), "no mean");
    }
  });
}

TEST_CASE("an array for gradients with the wrong size is rejected with the required size") {
  ScriptedGroup scripted;
  std::vector<float> weight(3);
  std::vector<float> few(2);
  std::vector<double> doubles(3);
  const auto with = [&](Buffer gradients) {
    DistributedDataParallel(scripted.group, {{"weight", weight, {3}}}, {.gradients = gradients});
  };
  expect_error(ErrorKind::invalid_argument, {"DataParallelOptions::gradients is f32[2]", "3 elements"},
               [&] { with(few); });
  expect_error(ErrorKind::invalid_argument, {"f64[3]", "another type"}, [&] { with(doubles); });
  expect_error(ErrorKind::invalid_argument, {"3 elements"}, [&] { with({nullptr, 3, DataType::f32}); });
}

TEST_CASE("DistributedDataParallel keeps its group alive") {
  MixedModel model;
  std::optional<ScriptedGroup> scripted(std::in_place);
  DistributedDataParallel data_parallel(scripted->group, model.parameters);
  scripted.reset();
  CHECK(data_parallel.group().size() == 1);
  for (const std::size_t i : {2, 1, 0}) data_parallel.mark_ready(i);
  data_parallel.finish();
}

TEST_CASE("copies of a DistributedDataParallel refer to the same object") {
  GlooRanks(2).all_succeed([](GlooRanks::Rank& self) {
    MixedModel model;
    std::optional<DistributedDataParallel> first(std::in_place, self.group(), model.parameters, kBucketEach);
    DistributedDataParallel copy = *first;
    const Parameter bias = first->parameter("bias");
    Optimizer optimizer(*first, SgdOptions{.learning_rate = 1});
    const Accumulation window = first->accumulate(1);
    require(copy.gradient(0).data == first->gradient(0).data, "another gradient");
    expect_error(ErrorKind::invalid_argument, {"already open"}, [&] { (void)copy.accumulate(1); });
    first->mark_ready(2);
    expect_error(ErrorKind::invalid_argument, {"already complete"}, [&] { copy.mark_ready(2); });
    const DistributedDataParallel moved = std::move(*first);
    first.reset();
    bias.gradient<float>()[2] = static_cast<float>(2 * self.rank());
    moved.mark_ready(0);
    bias.mark_ready();
    copy.finish();
    optimizer.step();
    require(bias.values().data.as<float>()[2] == -1, "no step of the optimizer");
    require(moved.statistics().steps == 1 && &moved.engine() == &copy.engine(), "another object");
    self.group().barrier().wait();
  });
}

TEST_CASE("a Parameter, Optimizer, Join or LocalSgd keeps a temporary DistributedDataParallel's state alive") {
  ScriptedGroup scripted;
  MixedModel model;
  const auto make = [&] { return DistributedDataParallel(scripted.group, model.parameters); };
  const Parameter bias = make().parameter("bias");
  bias.mark_ready();
  expect_error(ErrorKind::invalid_argument, {"'bias'", "already complete"}, [&] { bias.mark_ready(); });
  Optimizer optimizer(make(), SgdOptions{});
  expect_error(ErrorKind::invalid_argument, {"finish() was not called"}, [&] { optimizer.step(); });
  Join join(make());
  join.begin_step();
  CHECK(join.active_ranks() == std::vector<int>{0});
  LocalSgd local(make(), {.period = 1});
  CHECK(local.step());
}
