#include <ddp/loss_scaler.h>

#include <cmath>
#include <limits>

#include "runtime/backend/backends.h"
#include "support/catch.h"
#include "support/expect_error.h"
#include "support/rank_threads.h"
#include "support/scripted_backend.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

TEST_CASE("an overflow on one rank skips the step on all and lowers the scale") {
  for (const bool sharded : {false, true}) {
    RankThreads(make_cpu_backend, 3).all_succeed([&](RankThreads::Rank& self) {
      std::vector<BFloat16> weight(100);
      DataParallelOptions options;
      if (sharded) options.exchange = ShardOptimizer{};
      DistributedDataParallel data_parallel(self.group(), {{"weight", weight, {100}}}, options);
      LossScaler scaler({.scale = 1024, .growth_interval = 2});
      const auto step = [&](float gradient) {
        for (BFloat16& element : data_parallel.gradient<BFloat16>(0)) element = BFloat16(1);
        data_parallel.gradient<BFloat16>(0)[3] = BFloat16(gradient * static_cast<float>(scaler.scale()));
        data_parallel.mark_ready(0);
        data_parallel.finish();
        return scaler.unscale(data_parallel);
      };
      require(step(0.5F), "no overflow");
      require(scaler.scale() == 1024, "scale");
      if (!sharded) {
        require(data_parallel.gradient<BFloat16>(0)[3] == BFloat16(0.5F), "not unscaled");
      }
      require(!step(self.rank() == 1 ? 1e38F : 0.5F), "overflow");
      require(scaler.scale() == 512, "not lowered");
      require(step(0.5F) && scaler.scale() == 512, "first good one");
      require(step(0.5F) && scaler.scale() == 1024, "second good one");
    });
  }
}

TEST_CASE("what is too small for f16 counts when the optimizer divides") {
  for (const bool sharded : {false, true}) {
    RankThreads(make_cpu_backend, 2).all_succeed([&](RankThreads::Rank& self) {
      std::vector<Float16> halves(40, Float16(1));
      std::vector<float> singles(40, 1);
      DataParallelOptions options;
      if (sharded) options.exchange = ShardOptimizer{};
      DistributedDataParallel data_parallel(self.group(), {{"halves", halves, {40}}, {"singles", singles, {40}}},
                                            options);
      Optimizer optimizer(data_parallel, SgdOptions{.learning_rate = 1e7});
      LossScaler scaler({.scale = 65536});
      const float gradient = 1e-8F;  // the smallest f16 is 6e-8
      for (Float16& element : data_parallel.gradient<Float16>(0)) element = Float16(gradient * 65536);
      for (float& element : data_parallel.gradient<float>(1)) element = gradient * 65536;
      data_parallel.mark_ready(0);
      data_parallel.mark_ready(1);
      data_parallel.finish();
      expect_error(ErrorKind::invalid_argument, {"'halves' is f16", "Optimizer"},
                   [&] { (void)scaler.unscale(data_parallel); });
      require(scaler.unscale(optimizer), "finite");
      expect_error(ErrorKind::invalid_argument, {"already called in this step"},
                   [&] { (void)scaler.unscale(optimizer); });
      // A step that the program left out does not count in the next one.
      for (Float16& element : data_parallel.gradient<Float16>(0)) element = Float16(gradient * 65536);
      for (float& element : data_parallel.gradient<float>(1)) element = gradient * 65536;
      data_parallel.mark_ready(0);
      data_parallel.mark_ready(1);
      data_parallel.finish();
      require(scaler.unscale(optimizer), "the next step");
      optimizer.step();
      require(std::abs(static_cast<float>(halves[39]) - 0.9F) < 1e-3F, "halves");
      require(std::abs(singles[39] - 0.9F) < 1e-5F, "singles");
    });
  }
}

TEST_CASE("steps that overflow for ever do not bring the scale to 0") {
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

TEST_CASE("a loss scaler's state is what a checkpoint needs") {
  LossScaler scaler({.scale = 8});
  const Tensor state = scaler.state();
  CHECK(state.name == "loss_scaler");
  state.data.as<double>()[0] = 32;
  CHECK(scaler.scale() == 32);
  expect_error(ErrorKind::invalid_argument, {"scale must be more than 0"}, [] { LossScaler({.scale = 0}); });
  expect_error(ErrorKind::invalid_argument, {"backoff between 0 and 1"}, [] { LossScaler({.backoff = 1}); });
}
