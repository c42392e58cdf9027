#include <ddp/loss_scaler.h>

#include <catch2/catch.hpp>

#include <limits>

#include "runtime/backend/cpu/cpu_backend.h"
#include "support/expect_error.h"
#include "support/rank_threads.h"

using namespace ddp;
using namespace ddp::test;

TEST_CASE("an overflow on one rank skips the step on all and lowers the scale") {
  for (const bool sharded : {false, true}) {
    RankThreads(make_cpu_backend, 3).all_succeed([&](RankThreads::Rank& self) {
      std::vector<Float16> weight(100);
      DataParallelOptions options;
      options.shard_optimizer = sharded;
      DistributedDataParallel data_parallel(self.group(), {{"weight", weight, {100}}}, options);
      LossScaler scaler({.scale = 1024, .growth_interval = 2});
      const auto step = [&](float gradient) {
        for (Float16& element : data_parallel.gradient<Float16>(0)) element = Float16(1);
        data_parallel.gradient<Float16>(0)[3] = Float16(gradient * static_cast<float>(scaler.scale()));
        data_parallel.mark_ready(0);
        data_parallel.finish();
        return scaler.unscale(data_parallel);
      };
      require(step(0.5F), "no overflow");
      require(scaler.scale() == 1024, "scale");
      if (!sharded) {
        require(data_parallel.gradient<Float16>(0)[3] == Float16(0.5F), "not unscaled");
      }
      require(!step(self.rank() == 1 ? 1e4F : 0.5F), "overflow");
      require(scaler.scale() == 512, "not lowered");
      require(step(0.5F) && scaler.scale() == 512, "first good one");
      require(step(0.5F) && scaler.scale() == 1024, "second good one");
    });
  }
}

TEST_CASE("a loss scaler's state is what a checkpoint needs") {
  LossScaler scaler({.scale = 8});
  const Tensor state = scaler.state();
  CHECK(state.name == "loss_scaler");
  state.data.as<double>()[0] = 32;
  CHECK(scaler.scale() == 32);
  expect_error(ErrorKind::invalid_argument, {"scale is more than 0"}, [] { LossScaler({.scale = 0}); });
  expect_error(ErrorKind::invalid_argument, {"backoff between 0 and 1"}, [] { LossScaler({.backoff = 1}); });
}
