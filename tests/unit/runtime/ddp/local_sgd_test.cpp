#include <ddp/local_sgd.h>
#include <ddp/loss_scaler.h>
#include <ddp/optimizer.h>

#include <cmath>

#include "runtime/backend/backends.h"
#include "support/catch.h"
#include "support/expect_error.h"
#include "support/placed_memory.h"
#include "support/rank_threads.h"
#include "support/scripted_backend.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

namespace {

// Has one weight, whose gradient is a number of each rank.
struct OneWeight {
  PlacedMemory memory;
  Buffer weight = memory.make(std::vector<double>(1));
  DistributedDataParallel data_parallel;
  Optimizer optimizer;

  OneWeight(ProcessGroup& group, DeviceType device)
      : memory(group, device),
        data_parallel(group, {{"weight", weight, {1}}}, options()),
        optimizer(data_parallel, SgdOptions{.learning_rate = 1}) {}

  DataParallelOptions options() const {
    DataParallelOptions result;
    result.stream = memory.stream();
    return result;
  }
  void backward(double gradient) {
    data_parallel.zero_gradients();
    memory.fill(data_parallel.gradient(0), gradient);
    data_parallel.mark_ready(0);
    data_parallel.finish();
  }
  double value() { return memory.first(weight); }
};

}  // namespace

TEST_CASE("ranks step independently between two averages") {
  const MemoryUnderTest memory = GENERATE(from_range(memories_in_software()));
  RankThreads(memory.make, 2).all_succeed([&](RankThreads::Rank& self) {
    OneWeight model(self.group(), memory.device);
    LocalSgd local(model.data_parallel, {.period = 3, .warmup_steps = 2});
    std::vector<double> values;
    std::vector<bool> averaged;
    for (int step = 0; step < 9; ++step) {
      model.backward(-1.0 - self.rank());  // the mean is -1.5
      model.optimizer.step();
      averaged.push_back(local.step());
      values.push_back(model.value());
    }
    const double own = 1.0 + self.rank();
    const std::vector<double> expected = {1.5, 3, 3 + own, 3 + 2 * own, 7.5, 7.5 + own, 7.5 + 2 * own, 12, 12 + own};
    require(values == expected, "values");
    require(averaged == std::vector<bool>{false, false, false, false, true, false, false, true, false}, "averaged");
    local.average();
    require(model.value() == 13.5, "the last average");
  });
}

TEST_CASE("an overflow on one rank makes all ranks with local steps skip the step together") {
  const MemoryUnderTest memory = GENERATE(from_range(memories_in_software()));
  RankThreads(memory.make, 2).all_succeed([&](RankThreads::Rank& self) {
    OneWeight model(self.group(), memory.device);
    const LocalSgd local(model.data_parallel, {});
    LossScaler scaler({.scale = 8});
    for (const double gradient : {self.rank() == 1 ? INFINITY : 1.0, 1.0}) {
      model.backward(gradient);
      const bool is_finite = scaler.unscale(model.optimizer);
      if (is_finite) model.optimizer.step();
    }
    require(scaler.scale() == 4 && model.value() == -0.25, "scale " + std::to_string(scaler.scale()));
  });
}

TEST_CASE("gradients are averaged again after local steps") {
  const MemoryUnderTest memory = GENERATE(from_range(memories_in_software()));
  RankThreads(memory.make, 2).all_succeed([&](RankThreads::Rank& self) {
    OneWeight model(self.group(), memory.device);
    { const LocalSgd local(model.data_parallel, {}); }
    model.backward(self.rank());
    require(model.memory.first(model.data_parallel.gradient(0)) == 0.5, "mean");
  });
}

TEST_CASE("invalid options of local SGD are rejected") {
  ScriptedGroup scripted;
  std::vector<double> weight(1);
  DataParallelOptions options;
  options.exchange = ShardOptimizer{};
  DistributedDataParallel sharded(scripted.group, {{"weight", weight, {1}}}, options);
  expect_error(ErrorKind::invalid_argument, {"ShardOptimizer"}, [&] { LocalSgd(sharded, {}); });
  DistributedDataParallel whole(scripted.group, {{"weight", weight, {1}}});
  expect_error(ErrorKind::invalid_argument, {"period must be 1 or more (0)"}, [&] { LocalSgd(whole, {.period = 0}); });
}

TEST_CASE("local steps continue after a checkpoint is loaded") {
  ScriptedGroup scripted;
  std::vector<double> weight(1);
  DistributedDataParallel data_parallel(scripted.group, {{"weight", weight, {1}}});
  LocalSgd local(data_parallel, {.period = 3, .warmup_steps = 2});
  const Tensor state = local.state();
  CHECK(state.name == "local_sgd");
  state.data.as<std::int64_t>()[0] = 4;  // a checkpoint restores it like this
  local.follow();
  CHECK_FALSE(data_parallel.synchronizes());
  CHECK(local.step());
}
