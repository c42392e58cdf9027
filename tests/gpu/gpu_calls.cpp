// gpu_calls SECONDS BYTES... measures what an all_reduce of the runtime costs, on a stream as in training, and without
// one. To be compared with raw_nccl_bench. Each size takes about SECONDS.
//
// Rank 0 prints one line of JSON per size: {"bytes", "call_microseconds", "microseconds", "alone_microseconds",
// "behind_microseconds"}. These are the host's time for a call on a stream, the time of one in a row, of one without a
// stream, and of one without a stream that follows a row of others on a stream.
#include <ddp/ddp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <vector>

#include "gpu/driver.h"

namespace {

using Clock = std::chrono::steady_clock;
using ddp::gpu::Driver;
using ddp::gpu::Handle;

constexpr int kWarmUp = 2;
constexpr int kLeastRounds = 3;
constexpr int kMostRounds = 100;
constexpr std::size_t kLarge = std::size_t{1} << 20;

double microseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

struct Times {
  std::vector<double> values;
  double median() {
    std::sort(values.begin(), values.end());
    return values.empty() ? -1 : values[values.size() / 2];
  }
};

void measure(ddp::ProcessGroup& world, const Driver& driver, Handle handle, std::size_t bytes, double seconds) {
  const ddp::Stream stream = ddp::Stream::from_handle(handle);
  const std::size_t count = std::max<std::size_t>(bytes / sizeof(float), 1);
  const ddp::Memory values = world.allocate(count, ddp::DataType::f32, ddp::DeviceType::cuda);
  const auto on_stream = [&](int calls) {
    for (int i = 0; i < calls; ++i) world.all_reduce(values, ddp::ReduceOp::sum, {.stream = stream}).wait();
  };
  const auto synchronize = [&] { driver.call("cuStreamSynchronize", handle); };
  const int batch = bytes > kLarge ? 4 : 20;
  Times call, each, alone, behind;
  // All ranks must make the same number of calls, so they agree on it after the warm-up.
  int rounds = kWarmUp;
  for (int round = 0; round < rounds; ++round) {
    const auto begin = Clock::now();
    on_stream(batch);
    const double called = microseconds_since(begin);
    synchronize();
    const double took = microseconds_since(begin);
    const auto single = Clock::now();
    world.all_reduce(values).wait();
    const double without = microseconds_since(single);
    on_stream(batch);
    const auto last = Clock::now();
    world.all_reduce(values).wait();
    const double after = microseconds_since(last);
    if (round == kWarmUp - 1) {
      std::vector<double> slowest = {microseconds_since(begin)};
      world.all_reduce(slowest, ddp::ReduceOp::max).wait();
      rounds += static_cast<int>(std::clamp(seconds * 1e6 / slowest[0], double{kLeastRounds}, double{kMostRounds}));
    }
    if (round < kWarmUp) continue;
    call.values.push_back(called / batch);
    each.values.push_back(took / batch);
    alone.values.push_back(without);
    behind.values.push_back(after);
  }
  if (world.rank() != 0) return;
  std::printf(
      "{\"bytes\": %zu, \"call_microseconds\": %.2f, \"microseconds\": %.2f, \"alone_microseconds\": %.2f, "
      "\"behind_microseconds\": %.2f, \"rounds\": %d}\n",
      bytes, call.median(), each.median(), alone.median(), behind.median(), rounds - kWarmUp);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::span<char*> words(argv, static_cast<std::size_t>(argc));
    if (argc < 3) throw std::runtime_error("usage: gpu_calls SECONDS BYTES...");
    ddp::ProcessGroup world = ddp::init();
    if (world.backend() != "nccl") throw std::runtime_error("needs a GPU: " + world.backend_reason());
    const Driver driver;
    Handle stream = nullptr;
    constexpr unsigned kNonBlocking = 1;
    if (driver.call("cuStreamCreate", &stream, kNonBlocking) != 0) throw std::runtime_error("cuStreamCreate failed");
    for (const char* bytes : words.subspan(2)) {
      measure(world, driver, stream, std::strtoull(bytes, nullptr, 10), std::atof(words[1]));
    }
    world.finalize();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_calls: %s\n", error.what());
    return 1;
  }
}
