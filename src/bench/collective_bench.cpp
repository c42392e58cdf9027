// ddp_bench measures collectives between the launched ranks and prints them in nccl-tests' columns. `ddplaunch bench`
// starts it. It uses only the public interface.
//
// It uses nccl-tests' definitions of bandwidths (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md).
// `algbw` is size / time. `busbw` is algbw times a factor that makes it comparable with the speed of the hardware for
// any number of ranks n. The factor is 2(n-1)/n for all_reduce, (n-1)/n for all_gather, reduce_scatter and all_to_all,
// and 1 for broadcast. `size` is that of the larger of input and output.
#include <ddp/ddp.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "bench/bench_options.h"

namespace {

using Clock = std::chrono::steady_clock;
using ddp::bench::BenchOptions;

// Returns the sizes to measure.
std::vector<std::size_t> sizes_of(const BenchOptions& options) {
  if (!options.sizes.empty()) return options.sizes;
  std::vector<std::size_t> sizes;
  for (std::size_t bytes = options.min_bytes;; bytes *= options.factor) {
    sizes.push_back(bytes);
    if (bytes > options.max_bytes / options.factor) return sizes;
  }
}

// Holds the buffers of one benchmark and fills them.
class Bench {
 public:
  Bench(const ddp::ProcessGroup& group, const BenchOptions& options) : group_(group), options_(options) {}

  struct Line {
    std::size_t bytes = 0;
    std::size_t count = 0;
    double microseconds = 0;  // median over iterations of the slowest rank's time
    double least = 0;
    double algbw = 0;
    double busbw = 0;
    long wrong = -1;  // not checked
    int iterations = 0;
  };

  Line measure(const std::string& operation, std::size_t bytes) {
    const auto ranks = static_cast<std::size_t>(group_.size());
    const bool parts = operation != "all_reduce" && operation != "broadcast";
    std::size_t count = bytes / sizeof(float);
    if (parts) count = std::max<std::size_t>(count / ranks, 1) * ranks;
    Memory input = make(count);
    Memory output = parts ? make(count) : Memory();
    const auto call = [&] { return start(operation, input.buffer, output.buffer); };

    Line line;
    line.bytes = count * sizeof(float);
    line.count = count;
    if (!options_.no_check) line.wrong = wrong(operation, input.buffer, output.buffer);
    fill(input.buffer);
    line.iterations = options_.iterations > 0 ? options_.iterations : iterations_within(call);
    std::vector<double> times;
    for (int i = 0; i < line.iterations; ++i) times.push_back(time(call));
    // The collective ends when it has ended on every rank.
    group_.all_reduce(times, ddp::ReduceOp::max).wait();
    std::sort(times.begin(), times.end());
    line.microseconds = times[times.size() / 2];
    line.least = times.front();
    line.algbw = static_cast<double>(line.bytes) / line.microseconds / 1e3;
    line.busbw = line.algbw * bus_factor(operation);
    return line;
  }

 private:
  struct Memory {
    ddp::Memory shared;
    std::vector<float> own;
    ddp::Buffer buffer;
  };

  Memory make(std::size_t count) {
    Memory memory;
    if (!options_.own_buffers) {
      memory.shared = group_.allocate(count, ddp::DataType::f32, device_);
      memory.buffer = memory.shared.buffer();
    } else {
      memory.own.resize(count);
      memory.buffer = memory.own;
    }
    return memory;
  }

  // Returns whole numbers, whose sums are exact.
  float value(int rank, std::size_t i) const { return static_cast<float>((static_cast<std::size_t>(rank) + i) % 8); }
  void fill(const ddp::Buffer& buffer) {
    std::vector<float> values(buffer.count);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = value(group_.rank(), i);
    group_.copy(buffer, values);
  }

  ddp::Work start(const std::string& operation, const ddp::Buffer& input, const ddp::Buffer& output) {
    const std::size_t part = input.count / static_cast<std::size_t>(group_.size());
    if (operation == "all_reduce") return group_.all_reduce(input);
    if (operation == "broadcast") return group_.broadcast(input, 0);
    if (operation == "all_gather") return group_.all_gather(output, input.slice(0, part));
    if (operation == "reduce_scatter") return group_.reduce_scatter(output.slice(0, part), input);
    return group_.all_to_all(output, input);
  }

  double expected(const std::string& operation, std::size_t i, std::size_t part) const {
    const auto own = static_cast<std::size_t>(group_.rank());
    if (operation == "broadcast") return value(0, i);
    if (operation == "all_gather") return value(static_cast<int>(i / part), i % part);
    if (operation == "all_to_all") return value(static_cast<int>(i / part), own * part + i % part);
    double sum = 0;
    for (int rank = 0; rank < group_.size(); ++rank) {
      sum += value(rank, operation == "all_reduce" ? i : own * part + i);
    }
    return sum;
  }

  // Returns the number of wrong elements on all ranks.
  long wrong(const std::string& operation, const ddp::Buffer& input, const ddp::Buffer& output) {
    const std::size_t part = input.count / static_cast<std::size_t>(group_.size());
    fill(input);
    start(operation, input, output).wait();
    ddp::Buffer result = output.count > 0 ? output : input;
    if (operation == "reduce_scatter") result = output.slice(0, part);
    std::vector<float> values(result.count);
    group_.copy(values, result);
    std::vector<std::int64_t> faults = {0};
    for (std::size_t i = 0; i < values.size(); ++i) {
      faults[0] += static_cast<double>(values[i]) != expected(operation, i, part) ? 1 : 0;
    }
    group_.all_reduce(faults).wait();
    return static_cast<long>(faults[0]);
  }

  template <typename Call>
  double time(const Call& call) {
    group_.barrier().wait();
    const auto begin = Clock::now();
    std::vector<ddp::Work> works;
    for (int i = 0; i < calls_per_iteration(); ++i) works.push_back(call());
    for (ddp::Work& work : works) work.wait();
    return std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / static_cast<double>(works.size());
  }

  // Returns the same number on every rank.
  template <typename Call>
  int iterations_within(const Call& call) {
    std::vector<double> once = {0};
    for (int i = 0; i < 3; ++i) once[0] = time(call);  // the first calls touch the memory
    group_.all_reduce(once, ddp::ReduceOp::max).wait();
    return ddp::bench::iterations_within(options_.seconds, once[0], calls_per_iteration());
  }

  double bus_factor(const std::string& operation) const {
    const double n = group_.size();
    if (operation == "broadcast") return 1;
    return operation == "all_reduce" ? 2 * (n - 1) / n : (n - 1) / n;
  }

  // On a GPU the calls follow each other without the host between them, as in nccl-tests.
  static constexpr int kGpuBatch = 20;
  int calls_per_iteration() const { return !options_.own_buffers && device_ == ddp::DeviceType::cuda ? kGpuBatch : 1; }

  const ddp::ProcessGroup group_;
  const BenchOptions options_;
  const ddp::DeviceType device_ = group_.backend() == "nccl" ? ddp::DeviceType::cuda : ddp::DeviceType::cpu;
};

void print_header(const ddp::ProcessGroup& group, const BenchOptions& options, const std::string& operation) {
  std::printf("# %s, %d ranks, backend %s, %s buffers\n", operation.c_str(), group.size(), group.backend().c_str(),
              options.own_buffers ? "the program's own" : "the runtime's");
  std::printf("# %10s %12s %7s %7s %6s %12s %12s %9s %9s %7s %6s\n", "size(B)", "count", "type", "redop", "root",
              "time(us)", "least(us)", "algbw", "busbw", "#wrong", "iters");
}

void print_line(const Bench::Line& line, const std::string& operation) {
  const bool reduces = operation == "all_reduce" || operation == "reduce_scatter";
  std::printf("  %10zu %12zu %7s %7s %6s %12.2f %12.2f %9.3f %9.3f %7s %6d\n", line.bytes, line.count, "float",
              reduces ? "sum" : "none", operation == "broadcast" ? "0" : "-1", line.microseconds, line.least,
              line.algbw, line.busbw, line.wrong < 0 ? "N/A" : std::to_string(line.wrong).c_str(), line.iterations);
}

void print_json(const ddp::ProcessGroup& group, const Bench::Line& line, const std::string& operation, bool shared) {
  std::printf(
      "{\"operation\": \"%s\", \"backend\": \"%s\", \"ranks\": %d, \"runtime_buffers\": %s, \"bytes\": %zu, "
      "\"count\": %zu, \"microseconds\": %.3f, \"least_microseconds\": %.3f, \"algbw_gbs\": %.6g, \"busbw_gbs\": %.6g, "
      "\"wrong\": %ld, \"iterations\": %d}\n",
      operation.c_str(), group.backend().c_str(), group.size(), shared ? "true" : "false", line.bytes, line.count,
      line.microseconds, line.least, line.algbw, line.busbw, line.wrong, line.iterations);
}

int run(const BenchOptions& options) {
  ddp::ProcessGroup group = ddp::init();
  const bool talks = group.rank() == 0;
  long wrong = 0;
  for (const std::string& operation : options.operations) {
    if (talks && !options.json) print_header(group, options, operation);
    Bench bench(group, options);
    for (const std::size_t bytes : sizes_of(options)) {
      const Bench::Line line = bench.measure(operation, bytes);
      wrong += std::max(line.wrong, 0L);
      if (!talks) continue;
      options.json ? print_json(group, line, operation, !options.own_buffers) : print_line(line, operation);
      std::fflush(stdout);
    }
  }
  return wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto options = ddp::bench::parse_bench_options(argc, argv);
    return options ? run(*options) : 0;
  } catch (const ddp::Error& error) {
    std::fprintf(stderr, "ddp_bench: %s\n", error.what());
    return 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ddp_bench: %s\nSee ddp_bench --help\n", error.what());
    return 2;
  }
}
