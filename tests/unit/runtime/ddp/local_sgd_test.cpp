#include <ddp/local_sgd.h>
#include <ddp/loss_scaler.h>
#include <ddp/optimizer.h>

#include <cmath>

#include "runtime/backend/backends.h"
#include "support/catch.h"
#include "support/expect_error.h"
#include "support/rank_threads.h"
#include "support/scripted_backend.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

TEST_CASE("ranks step by themselves between averages") {
  RankThreads(make_cpu_backend, 2).all_succeed([](RankThreads::Rank& self) {
    std::vector<double> weight(1);
    DistributedDataParallel data_parallel(self.group(), {{"weight", weight, {1}}});
    Optimizer optimizer(data_parallel, SgdOptions{.learning_rate = 1});
    LocalSgd local(data_parallel, {.period = 3, .warmup_steps = 2});
    std::vector<double> values;
    std::vector<bool> averaged;
    for (int step = 0; step < 9; ++step) {
      data_parallel.zero_gradients();
      data_parallel.gradient<double>(0)[0] = -1.0 - self.rank();  // the mean is -1.5
      data_parallel.mark_ready(0);
      data_parallel.finish();
      optimizer.step();
      averaged.push_back(local.step());
      values.push_back(weight[0]);
    }
    const double own = 1.0 + self.rank();
    const std::vector<double> expected = {1.5, 3, 3 + own, 3 + 2 * own, 7.5, 7.5 + own, 7.5 + 2 * own, 12, 12 + own};
    require(values == expected, "values");
    require(averaged == std::vector<bool>{false, false, false, false, true, false, false, true, false}, "averaged");
    local.average();
    require(weight[0] == 13.5, "the last average");
  });
}

TEST_CASE("ranks that step by themselves skip a step together where one of them overflows") {
  RankThreads(make_cpu_backend, 2).all_succeed([](RankThreads::Rank& self) {
    std::vector<double> weight(1);
    DistributedDataParallel data_parallel(self.group(), {{"weight", weight, {1}}});
    Optimizer optimizer(data_parallel, SgdOptions{.learning_rate = 1});
    const LocalSgd local(data_parallel, {});
    LossScaler scaler({.scale = 8});
    for (const double gradient : {self.rank() == 1 ? INFINITY : 1.0, 1.0}) {
      data_parallel.zero_gradients();
      data_parallel.gradient<double>(0)[0] = gradient;
      data_parallel.mark_ready(0);
      data_parallel.finish();
      const bool is_finite = scaler.unscale(optimizer);
      if (is_finite) optimizer.step();
    }
    require(scaler.scale() == 4 && weight[0] == -0.25, "scale " + std::to_string(scaler.scale()));
  });
}

TEST_CASE("after local steps gradients are averaged again") {
  RankThreads(make_cpu_backend, 2).all_succeed([](RankThreads::Rank& self) {
    std::vector<double> weight(1);
    DistributedDataParallel data_parallel(self.group(), {{"weight", weight, {1}}});
    { const LocalSgd local(data_parallel, {}); }
    data_parallel.gradient<double>(0)[0] = self.rank();
    data_parallel.mark_ready(0);
    data_parallel.finish();
    require(data_parallel.gradient<double>(0)[0] == 0.5, "mean");
  });
}

TEST_CASE("wrong options of local SGD are refused") {
  ScriptedGroup scripted;
  std::vector<double> weight(1);
  DataParallelOptions options;
  options.exchange = ShardOptimizer{};
  DistributedDataParallel sharded(scripted.group, {{"weight", weight, {1}}}, options);
  expect_error(ErrorKind::invalid_argument, {"ShardOptimizer"}, [&] { LocalSgd(sharded, {}); });
  DistributedDataParallel whole(scripted.group, {{"weight", weight, {1}}});
  expect_error(ErrorKind::invalid_argument, {"period must be 1 or more (0)"}, [&] { LocalSgd(whole, {.period = 0}); });
}

TEST_CASE("local steps go on where a checkpoint was made") {
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
