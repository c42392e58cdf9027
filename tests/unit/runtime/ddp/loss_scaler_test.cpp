#include <ddp/loss_scaler.h>

#include <cmath>
#include <limits>

#include "runtime/backend/backends.h"
#include "support/catch.h"
#include "support/expect_error.h"
#include "support/placed_memory.h"
#include "support/rank_threads.h"
#include "support/scripted_backend.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

TEST_CASE("an overflow on one rank skips the step on all ranks and lowers the scale") {
  const bool sharded = GENERATE(false, true);
  const MemoryUnderTest memory = GENERATE(from_range(memories_in_software()));
  RankThreads(memory.make, 3).all_succeed([&](RankThreads::Rank& self) {
    PlacedMemory placed(self.group(), memory.device);
    DataParallelOptions options;
    options.stream = placed.stream();
    if (sharded) options.exchange = ShardOptimizer{};
    DistributedDataParallel data_parallel(self.group(), {{"weight", placed.make(std::vector<BFloat16>(100)), {100}}},
                                          options);
    LossScaler scaler({.scale = 1024, .growth_interval = 2});
    const auto step = [&](double gradient) {
      placed.set(data_parallel.gradient(0),
                 [&](std::size_t k) { return k == 3 ? gradient * scaler.scale() : scaler.scale(); });
      data_parallel.mark_ready(0);
      data_parallel.finish();
      return scaler.unscale(data_parallel);
    };
    require(step(0.5), "no overflow");
    require(scaler.scale() == 1024, "scale");
    for (const ParameterPiece& piece : data_parallel.owned()) {
      const std::vector<double> gradient = placed.numbers(piece.gradient);
      for (std::size_t k = 0; k < gradient.size(); ++k) {
        require(std::abs(gradient[k] - (piece.first + k == 3 ? 0.5 : 1)) < 1e-2, "not unscaled");
      }
    }
    require(!step(self.rank() == 1 ? 1e38 : 0.5), "overflow");
    require(scaler.scale() == 512, "not lowered");
    require(step(0.5) && scaler.scale() == 512, "first good one");
    require(step(0.5) && scaler.scale() == 1024, "second good one");
  });
}

TEST_CASE("gradients too small for f16 count when the optimizer divides by the scale") {
  const bool sharded = GENERATE(false, true);
  const MemoryUnderTest memory = GENERATE(from_range(memories_in_software()));
  RankThreads(memory.make, 2).all_succeed([&](RankThreads::Rank& self) {
    PlacedMemory placed(self.group(), memory.device);
    const Buffer halves = placed.make(std::vector<Float16>(40, Float16(1)));
    const Buffer singles = placed.make(std::vector<float>(40, 1));
    DataParallelOptions options;
    options.stream = placed.stream();
    if (sharded) options.exchange = ShardOptimizer{};
    DistributedDataParallel data_parallel(self.group(), {{"halves", halves, {40}}, {"singles", singles, {40}}},
                                          options);
    Optimizer optimizer(data_parallel, SgdOptions{.learning_rate = 1e7});
    LossScaler scaler({.scale = 65536});
    const double gradient = 1e-8;  // the smallest f16 is 6e-8
    const auto backward = [&] {
      for (const std::size_t i : {0, 1}) {
        placed.fill(data_parallel.gradient(i), gradient * 65536);
        data_parallel.mark_ready(i);
      }
      data_parallel.finish();
    };
    backward();
    expect_error(ErrorKind::invalid_argument, {"'halves' is f16", "Optimizer"},
                 [&] { (void)scaler.unscale(data_parallel); });
    require(scaler.unscale(optimizer), "finite");
    expect_error(ErrorKind::invalid_argument, {"already called in this step"},
                 [&] { (void)scaler.unscale(optimizer); });
    backward();  // a step that the program left out does not count in the next one
    require(scaler.unscale(optimizer), "the next step");
    optimizer.step();
    require(std::abs(placed.numbers(halves)[39] - 0.9) < 1e-3, "halves");
    require(std::abs(placed.numbers(singles)[39] - 0.9) < 1e-5, "singles");
  });
}

TEST_CASE("repeated overflows do not reduce the loss scale to 0") {
  ScriptedGroup scripted;
  std::vector<float> weight(2);
  DistributedDataParallel data_parallel(scripted.group, {{"weight", weight, {2}}});
  LossScaler scaler;
  for (int i = 0; i < 2000; ++i) {
    data_parallel.gradient<float>(0)[0] = std::numeric_limits<float>::infinity();
    data_parallel.mark_ready(0);
    data_parallel.finish();
    REQUIRE_FALSE(scaler.unscale(data_parallel));
  }
  CHECK(scaler.scale() > 0);
}

TEST_CASE("the state of a loss scaler is saved in a checkpoint") {
  LossScaler scaler({.scale = 8});
  const Tensor state = scaler.state();
  CHECK(state.name == "loss_scaler");
  state.data.as<double>()[0] = 32;
  CHECK(scaler.scale() == 32);
  expect_error(ErrorKind::invalid_argument, {"scale must be more than 0"}, [] { LossScaler({.scale = 0}); });
  expect_error(ErrorKind::invalid_argument, {"backoff between 0 and 1"}, [] { LossScaler({.backoff = 1}); });
}
