// Trains for four thousand steps on simulated GPUs whose streams are late at random (FAKE_GPU_DELAY). Nothing may pile
// up, and no memory may be used after it was freed.
#include <ddp/distributed_data_parallel.h>
#include <ddp/optimizer.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <string>

#include "support/catch.h"
#include "support/gpu_ranks.h"

using namespace ddp;
using namespace ddp::test;

namespace {

struct Left {
  std::array<long, 4> things{};  // streams, events, blocks of GPU memory, blocks of page-locked memory
  long resident_pages = 0;

  static Left now() {
    Left left;
    gpu_function<void(long*)>("fake_gpu_counts")(left.things.data());
    std::ifstream file("/proc/self/statm");
    long all = 0;
    file >> all >> left.resident_pages;
    return left;
  }
  // Keeps the lower counts. How much waits for late streams at a moment depends on who gets a processor.
  void lower_to(const Left& other) {
    for (std::size_t i = 0; i < things.size(); ++i) things[i] = std::min(things[i], other.things[i]);
    resident_pages = std::min(resident_pages, other.resident_pages);
  }
};

// One rank's training. The gradient of each step is its number plus the rank.
void train(ProcessGroup& group, int steps, const std::function<void(int step)>& at) {
  constexpr std::size_t kWeight = 3000;
  constexpr std::size_t kBias = 17;
  const CudaApi cuda = gpu_libraries()->cuda;
  ProgramStream stream(group);
  const Stream on = Stream::from_handle(stream.handle());
  const Memory weight = group.allocate(kWeight, DataType::f32, DeviceType::cuda);
  const Memory bias = group.allocate(kBias, DataType::f32, DeviceType::cuda);
  DataParallelOptions options;
  options.stream = on;
  options.buckets.first_bytes = 1;
  DistributedDataParallel data_parallel(
      group, {{"weight", weight, {std::ssize(weight.as<float>())}}, {"bias", bias, {std::ssize(bias.as<float>())}}},
      options);
  Optimizer optimizer(data_parallel, SgdOptions{.learning_rate = 1.0 / 1024});
  Memory input = group.allocate(kWeight, DataType::f32, DeviceType::cuda);
  std::vector<float> values(kWeight);
  for (int step = 0; step < steps; ++step) {
    // A new input replaces the one that kernels of earlier steps still read.
    if (step % 10 == 0) {
      values.assign(kWeight, static_cast<float>(step % 100 + group.rank()));
      Memory next = group.allocate(kWeight + (step % 100 == 0 ? 200'000 : 0), DataType::f32, DeviceType::cuda);
      group.copy(next.buffer().slice(0, kWeight), Buffer(values.data(), kWeight, DataType::f32));
      input = std::move(next);
    }
    data_parallel.zero_gradients();
    for (const std::size_t parameter : {1, 0}) {
      const Buffer gradient = data_parallel.gradient(parameter);
      require_cuda(cuda, cuda.copy_async(gradient.data, input.data(), gradient.bytes(), stream.handle()), "copy");
      data_parallel.mark_ready(parameter);
    }
    data_parallel.finish();
    optimizer.step();
    at(step);
  }
  std::vector<float> result(kWeight);
  group.copy(result, weight, on);
  double expected = 0;
  for (int step = 0; step < steps; ++step) expected -= (step / 10 * 10 % 100 + 0.5 * (group.size() - 1)) / 1024;
  require(std::abs(result[7] - expected) < 1e-3 * std::abs(expected), "the weight is " + std::to_string(result[7]));
}

}  // namespace

TEST_CASE("two thousand steps with late streams leak nothing", "[slow]") {
  if (on_real_gpu()) return;
  ::setenv("FAKE_GPU_DELAY", "30", 1);  // microseconds
  std::optional<Left> early;
  std::optional<Left> late;
  ranks_over(gpu_libraries(), 2, kPatience).all_succeed([&](RankThreads::Rank& self) {
    train(self.group(), 2'000, [&](int step) {
      // By then, the host has been as far ahead of the GPU as it may be.
      std::optional<Left>* left = step >= 900 && step < 1'000 ? &early : step >= 1'900 ? &late : nullptr;
      if (left == nullptr || step % 10 != 0) return;
      self.group().barrier().wait();  // the operations before it are complete, so only what piles up is left
      if (self.rank() != 0) return;
      if (!*left) *left = Left::now();
      (*left)->lower_to(Left::now());
    });
  });
  REQUIRE((early && late));
  // Pools grow whenever the host is further ahead than before. What is left behind in every fifth of the 1,000 steps
  // between is more.
  for (std::size_t i = 0; i < early->things.size(); ++i) CHECK(late->things[i] < early->things[i] + 200);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  // The sanitizers keep memory that was freed.
  const long page = ::sysconf(_SC_PAGESIZE);
  CHECK((late->resident_pages - early->resident_pages) * page < (4 << 20));
#endif
}
