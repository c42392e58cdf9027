#include <ddp/compression_hooks.h>
#include <ddp/distributed_data_parallel.h>

#include "support/catch.h"
#include "support/expect_error.h"
#include "support/hook_checks.h"
#include "support/rank_threads.h"

using namespace ddp;
using namespace ddp::test;

TEST_CASE("the top-k hook sends omitted elements in later steps", "[slow]") {
  for (const MemoryUnderTest& memory : memories_under_test()) {
    check_hook([] { return make_top_k_hook(0.1); }, 2, late(memory, 0.1), 0.2, memory);
    check_hook([] { return make_top_k_hook(1); }, 1e-6, 1e-6, 2, memory);
  }
}

TEST_CASE("the top-k hook gives the same gradients in host and GPU memory") {
  check_both_memories([] { return make_top_k_hook(0.05); }, 0);
}

TEST_CASE("the top-k hook sends the largest elements and adds the others to the next step") {
  RankThreads(make_cpu_backend, 2).all_succeed([](RankThreads::Rank& self) {
    std::vector<float> weight(4);
    DataParallelOptions options;
    options.exchange = make_top_k_hook(0.25);
    DistributedDataParallel data_parallel(self.group(), {{"weight", weight, {4}}}, options);
    const auto step = [&](float value) {
      const std::span<float> gradient = data_parallel.gradient<float>(0);
      for (std::size_t i = 0; i < 4; ++i) gradient[i] = 0;
      gradient[static_cast<std::size_t>(self.rank())] = value;
      gradient[3] = 3;
      data_parallel.mark_ready(0);
      data_parallel.finish();
      return gradient;
    };
    const auto first = step(-2);
    require(first[0] == 0 && first[1] == 0 && first[3] == 3, "first");
    const auto second = step(-2);  // each rank has the values -4 and 3
    require(second[0] == -2 && second[1] == -2 && second[3] == 0, "second");
    const auto third = step(0);  // each rank has the values 6 and 0
    require(third[0] == 0 && third[3] == 6, "third");
  });
}

TEST_CASE("invalid options of the top-k hook are rejected") {
  expect_error(ErrorKind::invalid_argument, {"above 0", "not 0.0"}, [] { make_top_k_hook(0); });
  expect_error(ErrorKind::invalid_argument, {"at most 1", "1.5"}, [] { make_top_k_hook(1.5); });
}
