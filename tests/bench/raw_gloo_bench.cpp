// raw_gloo_bench FOLDER ITERATIONS BYTES...: measures Gloo's own all-reduces of f32. The process is rank RANK of
// WORLD_SIZE ranks, which meet in FOLDER. Rank 0 prints {"ring": {"BYTES": µs, ...}, "bcube": ...}: medians of the time
// that the slowest rank took.
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace {

using Algorithm = gloo::AllreduceOptions::Algorithm;
using Clock = std::chrono::steady_clock;

template <typename T, typename Operation>
void all_reduce(const std::shared_ptr<gloo::Context>& context, std::vector<T>& values, Algorithm algorithm,
                Operation operation) {
  gloo::AllreduceOptions options(context);
  options.setOutput(values.data(), values.size());
  options.setAlgorithm(algorithm);
  options.setReduceFunction(operation);
  gloo::allreduce(options);
}

double median_us(const std::shared_ptr<gloo::Context>& context, std::size_t bytes, Algorithm algorithm,
                 int iterations) {
  using Sum = void (*)(void*, const void*, const void*, std::size_t);
  using Max = Sum;
  std::vector<float> values(bytes / sizeof(float), 1);
  std::vector<double> times;
  for (int i = -2; i < iterations; ++i) {
    gloo::BarrierOptions barrier(context);
    gloo::barrier(barrier);
    const auto begin = Clock::now();
    all_reduce(context, values, algorithm, static_cast<Sum>(&gloo::sum<float>));
    const double time = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
    if (i >= 0) times.push_back(time);
  }
  all_reduce(context, times, Algorithm::RING, static_cast<Max>(&gloo::max<double>));
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const int rank = std::atoi(std::getenv("RANK"));        // NOLINT(concurrency-mt-unsafe)
  const int size = std::atoi(std::getenv("WORLD_SIZE"));  // NOLINT(concurrency-mt-unsafe)
  gloo::transport::tcp::attr attributes;
  attributes.hostname = "127.0.0.1";
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  gloo::rendezvous::FileStore store(argv[1]);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
  context->connectFullMesh(store, device);
  const int iterations = std::atoi(argv[2]);
  std::string text = "{";
  for (const auto& [name, algorithm] : {std::pair{"ring", Algorithm::RING}, std::pair{"bcube", Algorithm::BCUBE}}) {
    text += std::string(text.size() > 1 ? ", " : "") + "\"" + name + "\": {";
    for (int i = 3; i < argc; ++i) {
      const std::size_t bytes = std::stoull(argv[i]);
      // Larger buffers get fewer iterations, so that each size takes about as long.
      const int count =
          std::max(7, static_cast<int>(static_cast<double>(iterations) / (1 + static_cast<double>(bytes) / 2e5)));
      text += std::string(i > 3 ? ", " : "") + "\"" + argv[i] +
              "\": " + std::to_string(median_us(context, bytes, algorithm, count));
    }
    text += "}";
  }
  if (rank == 0) std::printf("%s}\n", text.c_str());
  return 0;
}
