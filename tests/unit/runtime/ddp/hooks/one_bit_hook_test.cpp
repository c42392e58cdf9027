#include <ddp/compression_hooks.h>
#include <ddp/distributed_data_parallel.h>

#include "support/catch.h"
#include "support/expect_error.h"
#include "support/hook_checks.h"
#include "support/rank_threads.h"

using namespace ddp;
using namespace ddp::test;

TEST_CASE("the one-bit hook adds the compression error to the next step") {
  check_hook([] { return make_one_bit_hook(); }, 2, 0.3, 0.03);
}

TEST_CASE("the one-bit hook sends the mean magnitude of the gradient") {
  RankThreads(make_cpu_backend, 2).all_succeed([](RankThreads::Rank& self) {
    std::vector<float> weight(3);
    DataParallelOptions options;
    options.exchange = make_one_bit_hook();
    DistributedDataParallel data_parallel(self.group(), {{"weight", weight, {3}}}, options);
    const auto step = [&](float a, float b, float c) {
      const std::span<float> gradient = data_parallel.gradient<float>(0);
      gradient[0] = a;
      gradient[1] = b;
      gradient[2] = c;
      data_parallel.mark_ready(0);
      data_parallel.finish();
      return gradient;
    };
    const auto first = step(1, -2, 6);  // it is sent as 3, -3, 3; the errors -2, 1, 3 are kept
    require(first[0] == 3 && first[1] == -3 && first[2] == 3, "first");
    const auto second = step(1, 1, 3);  // -1, 2, 6 are sent as -3, 3, 3
    require(second[0] == -3 && second[1] == 3 && second[2] == 3, "second");
  });
}

TEST_CASE("the one-bit hook rejects gradients in GPU memory") {
  RankThreads(gpu_memory_under_test().make, 1).all_succeed([](RankThreads::Rank& self) {
    PlacedMemory placed(self.group(), DeviceType::cuda);
    DataParallelOptions options;
    options.stream = placed.stream();
    options.exchange = make_one_bit_hook();
    DistributedDataParallel data_parallel(self.group(), {{"weight", placed.make(std::vector<float>(4)), {4}}}, options);
    expect_error(ErrorKind::unavailable, {"one-bit hook", "computes in host memory"},
                 [&] { data_parallel.mark_ready(0); });
  });
}

TEST_CASE("an overflow with the one-bit hook does not affect later steps") {
  check_overflow([] { return make_one_bit_hook(); }, host_memory());
}
