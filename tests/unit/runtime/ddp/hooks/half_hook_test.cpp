#include <ddp/compression_hooks.h>
#include <ddp/distributed_data_parallel.h>

#include <cmath>

#include "support/catch.h"
#include "support/expect_error.h"
#include "support/hook_checks.h"
#include "support/rank_threads.h"

using namespace ddp;
using namespace ddp::test;

TEST_CASE("half-precision hooks give the mean to the type's precision with half the bytes") {
  for (const MemoryUnderTest& memory : memories_under_test()) {
    check_hook([] { return make_half_hook(DataType::f16); }, 2e-3, 1e-3, 0.41, memory);
    check_hook([] { return make_half_hook(DataType::bf16); }, 1e-2, 5e-3, 0.41, memory);
  }
}

TEST_CASE("a half-precision hook gives the same mean in host and GPU memory, and a mean that fits does not overflow") {
  std::vector<std::string> results;
  for (const MemoryUnderTest& memory : memories_under_test()) {
    std::string result;
    RankThreads(memory.make, memory.ranks({2})[0]).all_succeed([&](RankThreads::Rank& self) {
      PlacedMemory placed(self.group(), memory.device);
      DataParallelOptions options;
      options.stream = placed.stream();
      options.exchange = make_half_hook(DataType::f16);
      DistributedDataParallel data_parallel(self.group(), {{"weight", placed.make(std::vector<float>(1000)), {1000}}},
                                            options);
      placed.set(data_parallel.gradient(0), [&](std::size_t k) {
        return k == 0 ? 100000.0 * (1 - self.rank()) : std::sin(static_cast<double>(k)) * (self.rank() + 1);
      });
      data_parallel.mark_ready(0);
      data_parallel.finish();
      const std::vector<double> mean = placed.numbers(data_parallel.gradient(0));
      require(self.group().size() != 2 || std::abs(mean[0] - 50000) < 50, "mean " + std::to_string(mean[0]));
      if (self.rank() == 0) result = placed.bytes(data_parallel.gradient(0));
    });
    results.push_back(result);
  }
  if (!on_real_gpu()) CHECK(results[0] == results[1]);
}

TEST_CASE("invalid options of the half-precision hook are rejected") {
  expect_error(ErrorKind::invalid_argument, {"f16 or bf16", "not as f32"}, [] { make_half_hook(DataType::f32); });
}
