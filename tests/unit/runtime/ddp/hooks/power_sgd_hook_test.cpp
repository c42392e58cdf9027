#include <ddp/compression_hooks.h>
#include <ddp/distributed_data_parallel.h>

#include <cmath>

#include "support/catch.h"
#include "support/expect_error.h"
#include "support/hook_checks.h"
#include "support/rank_threads.h"

using namespace ddp;
using namespace ddp::test;

TEST_CASE("PowerSGD reconstructs gradients of low rank and adds the error to the next step", "[slow]") {
  for (const MemoryUnderTest& memory : memories_under_test()) {
    const auto check = [&](PowerSgdOptions options, double first_error, double late_error, double byte_share) {
      check_hook([options] { return make_power_sgd_hook(options); }, first_error, late(memory, late_error), byte_share,
                 memory);
    };
    check({.rank = 2, .start_step = 0}, 0.2, 0.01, 0.15);
    if (memory.device == DeviceType::cuda) continue;  // kernels with barriers are slow in software
    check({.rank = 1, .start_step = 0}, 1, 0.05, 0.1);
    // The first steps use the plain mean.
    check({.rank = 1, .start_step = 5}, 1e-6, 0.05, 0.2);
  }
}

TEST_CASE("PowerSGD gives nearly the same gradients in host and GPU memory") {
  check_both_memories([] { return make_power_sgd_hook({.rank = 2, .start_step = 1, .least_compression = 1}); }, 1e-4);
}

TEST_CASE("a gradient that is zero at first does not remain zero with PowerSGD") {
  for (const MemoryUnderTest& memory : memories_under_test()) {
    RankThreads(memory.make, gpu_rank_counts({2})[0]).all_succeed([&](RankThreads::Rank& self) {
      PlacedMemory placed(self.group(), memory.device);
      DataParallelOptions options;
      options.stream = placed.stream();
      options.exchange = make_power_sgd_hook({.rank = 2, .start_step = 0});
      DistributedDataParallel data_parallel(self.group(), {{"weight", placed.make(std::vector<float>(400)), {20, 20}}},
                                            options);
      for (const float value : {0.0F, 3.0F}) {
        placed.fill(data_parallel.gradient(0), value);
        data_parallel.mark_ready(0);
        data_parallel.finish();
        for (const double element : placed.numbers(data_parallel.gradient(0))) {
          require(std::abs(element - value) < 1e-4, std::to_string(element));
        }
      }
    });
  }
}

TEST_CASE("an overflow with PowerSGD does not affect later steps") {
  for (const MemoryUnderTest& memory : memories_under_test()) {
    check_overflow([] { return make_power_sgd_hook({.rank = 1, .start_step = 0, .least_compression = 0.1}); }, memory);
  }
}

TEST_CASE("invalid options of the PowerSGD hook are rejected") {
  expect_error(ErrorKind::invalid_argument, {"rank must be 1 or more (0)"}, [] { make_power_sgd_hook({.rank = 0}); });
}
