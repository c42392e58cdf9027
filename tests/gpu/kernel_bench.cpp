// kernel_bench SECONDS MEBIBYTES measures how fast the runtime's kernels move memory, beside the driver's own copy.
// Each kernel works for about SECONDS, on arrays of f32 of MEBIBYTES and on buckets of 25 MiB.
//
// Prints one line of JSON per kernel: {"kernel", "microseconds", "gb_per_s", "of_copy"}. The first line is the time to
// load the kernels, for which the driver compiles them unless its cache has them (CUDA_CACHE_DISABLE=1). NCCL's scaling
// sum of one rank stands beside the scale kernel: it is the pass that a premultiplied sum makes in its place.
// With DDP_TEST_GPU=1 the program uses this computer's GPU, else the simulated one of the tests.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/backend/nccl/gpu_kernels.h"
#include "runtime/ddp/hooks/compression_math.h"
#include "support/gpu_arrays.h"

namespace {

using namespace ddp;
using namespace ddp::test;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kBucket = std::size_t{25} << 20;
constexpr std::size_t kLeast = 3;
constexpr std::size_t kMost = 200;
constexpr MatrixShape kMatrix{4096, 4096, 4};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void print_time_to_load(const CudaApi& cuda) {
  const auto begin = Clock::now();
  CudaModuleHandle module = nullptr;
  require_cuda(cuda, cuda.load_module(module, kKernelsText), "load the kernels");
  const double loaded = seconds_since(begin);
  const std::string_view text = kKernelsText;
  int functions = 0;
  for (std::size_t at = text.find(".entry "); at != std::string_view::npos; at = text.find(".entry ", at + 1)) {
    const std::string name(text.substr(at + 7, text.find('(', at) - at - 7));
    CudaFunctionHandle function = nullptr;
    require_cuda(cuda, cuda.find_function(function, module, name.c_str()), "find " + name);
    ++functions;
  }
  std::printf("{\"kernel\": \"module\", \"load_seconds\": %.3f, \"with_functions_seconds\": %.3f, \"functions\": %d}\n",
              loaded, seconds_since(begin), functions);
  std::fflush(stdout);
}

class Bench {
 public:
  explicit Bench(double seconds) : seconds_(seconds) {
    require_cuda(cuda_, cuda_.create_event(begin_, kCudaTimedEvent), "create an event");
    require_cuda(cuda_, cuda_.create_event(end_, kCudaTimedEvent), "create an event");
  }

  // Measures `work`, which moves this many bytes.
  template <typename Work>
  void measure(const std::string& what, double bytes, const Work& work) {
    std::vector<double> times;
    work();  // the first call may load code
    const auto begun = Clock::now();
    while (times.size() < kLeast || (times.size() < kMost && seconds_since(begun) < seconds_)) {
      cuda_.record_event(begin_, stream());
      work();
      cuda_.record_event(end_, stream());
      double seconds = 0;
      while (cuda_.query_event(end_) == kCudaNotReady) std::this_thread::yield();
      require_cuda(cuda_, cuda_.seconds_between(begin_, end_, seconds), what);
      times.push_back(seconds);
    }
    std::sort(times.begin(), times.end());
    const double time = std::max(times[times.size() / 2], 1e-9);
    const double speed = bytes / time / 1e9;
    if (copy_speed_ == 0) copy_speed_ = speed;
    std::printf("{\"kernel\": \"%s\", \"microseconds\": %.2f, \"gb_per_s\": %.1f, \"of_copy\": %.3f}\n", what.c_str(),
                time * 1e6, speed, speed / copy_speed_);
    std::fflush(stdout);
  }

  // Returns memory with numbers that are not 0: some GPUs are faster with zeros.
  Buffer make(std::size_t bytes) {
    void* memory = nullptr;
    require_cuda(cuda_, cuda_.allocate(memory, bytes), "allocate " + std::to_string(bytes >> 20) + " MiB");
    const std::vector<float> numbers(std::min(bytes, kBucket) / sizeof(float), 0.01F);
    for (std::size_t at = 0; at < bytes; at += numbers.size() * sizeof(float)) {
      copy_now(cuda_, static_cast<std::byte*>(memory) + at, numbers.data(),
               std::min(numbers.size() * sizeof(float), bytes - at));
    }
    return {memory, bytes / sizeof(float), DataType::f32, DeviceType::cuda};
  }

  CudaStreamHandle stream() const { return gpu.stream.handle(); }

  GpuUnderTest gpu;

 private:
  const CudaApi& cuda_ = gpu.cuda;
  const double seconds_;
  double copy_speed_ = 0;
  CudaEventHandle begin_ = nullptr;
  CudaEventHandle end_ = nullptr;
};

// One rank has nothing to sum. For a plain sum in place NCCL then does nothing; a scaling sum is one pass over the
// memory.
class ScalingSum {
 public:
  explicit ScalingSum(const NcclApi& nccl) : nccl_(nccl) {
    NcclUniqueId id{};
    require(nccl_.get_unique_id(id) == NcclResult::success, "ncclGetUniqueId");
    require(nccl_.init(comm_, 1, id, 0, true) == NcclResult::success, "a communicator of one rank");
    float factor = 0.999F;
    require(
        nccl_.create_premultiplied_sum(op_, &factor, NcclType::f32, kNcclHostImmediate, comm_) == NcclResult::success,
        "an operation");
  }
  ~ScalingSum() { nccl_.abort(comm_); }
  ScalingSum(const ScalingSum&) = delete;
  ScalingSum& operator=(const ScalingSum&) = delete;

  void run(const Buffer& values, CudaStreamHandle stream) {
    const NcclResult result =
        nccl_.all_reduce(values.data, values.data, values.count, NcclType::f32, op_, comm_, stream);
    require(result == NcclResult::success, "ncclAllReduce");
  }

 private:
  const NcclApi& nccl_;
  NcclComm comm_ = nullptr;
  NcclOp op_{};
};

Buffer as(DataType type, const Buffer& memory) {
  return {memory.data, memory.count, type, DeviceType::cuda};
}

void measure_elements(Bench& bench, std::span<const Buffer> arrays, std::size_t count) {
  GpuKernels& math = *bench.gpu.math;
  const Stream stream = bench.gpu.stream;
  const auto of = [&](std::size_t i, DataType type = DataType::f32) { return as(type, arrays[i]).slice(0, count); };
  const std::string size = " of " + std::to_string(count >> 10) + " Ki elements";
  const auto bytes = [&](std::size_t per_element) { return static_cast<double>(count * per_element); };
  const auto measure = [&](const std::string& what, std::size_t per_element, const auto& work) {
    bench.measure(what + size, bytes(per_element), work);
  };
  measure("the driver's copy", 8,
          [&] { bench.gpu.cuda.copy_async(of(1).data, of(0).data, count * sizeof(float), bench.stream()); });
  measure("scale f32", 8, [&] { math.scale(of(0), 0.999, stream); });
  measure("scale bf16", 4, [&] { math.scale(of(0, DataType::bf16), 0.999, stream); });
  measure("convert f32 to bf16", 6, [&] { math.convert(of(0), of(1, DataType::bf16), 1, stream); });
  measure("convert bf16 to f32", 6, [&] { math.convert(of(0, DataType::bf16), of(1), 1, stream); });
  measure("add f32", 12, [&] { math.add(of(0), 0.5, false, of(1), stream); });
  measure("SGD f32", 12, [&] {
    math.update(SgdOptions{.learning_rate = 1e-3}, 1, {of(0), of(1), of(2), of(3), of(0), 1}, stream);
  });
  measure("Adam f32", 28, [&] { math.update(AdamOptions{}, 1, {of(0), of(1), of(2), of(3), of(0), 1}, stream); });
  ScalingSum sum(bench.gpu.libraries->nccl);
  measure("NCCL's scaling sum of one rank, f32", 8, [&] { sum.run(of(0), bench.stream()); });
  // These copy a result to the host, so the small size shows how long the host waits.
  const std::array buffers{ConstBuffer(of(0))};
  measure("sum of squares f32 with its result", 4, [&] { math.sum_of_squares(buffers, stream); });
  measure("find infinite f32 with its result", 4, [&] { math.are_finite(buffers, stream); });
}

// PowerSGD does this for each matrix, in each step.
void measure_low_rank(Bench& bench) {
  const CompressionMath math(bench.gpu.math.get(), bench.gpu.stream);
  const Buffer m = bench.make(kMatrix.rows * kMatrix.columns * sizeof(float));
  const Buffer p = bench.make(kMatrix.rows * kMatrix.rank * sizeof(float));
  const Buffer q = bench.make(kMatrix.columns * kMatrix.rank * sizeof(float));
  const auto matrix = static_cast<double>(m.bytes());
  bench.measure("multiply 4096 x 4096 x 4", matrix, [&] { math.multiply(kMatrix, m, q, p); });
  bench.measure("orthonormalise 4096 x 4", 2 * static_cast<double>(p.bytes()),
                [&] { math.orthonormalise(kMatrix, p); });
  bench.measure("multiply transposed 4096 x 4096 x 4", matrix, [&] { math.multiply_transposed(kMatrix, m, p, q); });
  bench.measure("expand 4096 x 4096 x 4", matrix, [&] { math.expand(kMatrix, p, q, m); });
}

}  // namespace

int main(int argc, char** argv) {
  try {
    require(argc == 3, "usage: kernel_bench SECONDS MEBIBYTES");
    const auto libraries = gpu_libraries();
    require_cuda(libraries->cuda, libraries->cuda.set_device(0), "use GPU 0");
    print_time_to_load(libraries->cuda);
    Bench bench(std::atof(argv[1]));
    const auto count = static_cast<std::size_t>(std::atof(argv[2]) * (1 << 20)) / sizeof(float);
    std::vector<Buffer> arrays;
    for (int i = 0; i < 4; ++i) arrays.push_back(bench.make(count * sizeof(float)));
    measure_elements(bench, arrays, count);
    if (count * sizeof(float) <= kBucket) return 0;
    measure_elements(bench, arrays, kBucket / sizeof(float));
    measure_low_rank(bench);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kernel_bench: %s\n", error.what());
    return 1;
  }
}
