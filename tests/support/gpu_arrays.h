// Provides arrays that exist in host memory and in GPU memory, to compare what functions compute in both.
#pragma once

#include <bit>
#include <cstring>
#include <random>
#include <vector>

#include "runtime/backend/nccl/gpu_kernels.h"
#include "support/gpu_libraries.h"

namespace ddp::test {

// Holds GPU 0, a stream of it, and the kernels.
struct GpuUnderTest {
  explicit GpuUnderTest(std::shared_ptr<GpuLibraries> libraries_ = gpu_libraries()) : libraries(std::move(libraries_)) {
    cuda.set_device(0);
    queue.emplace(cuda);
    heap = std::make_shared<GpuHeap>(libraries, 0, [] {});
    math = GpuKernels::load(libraries, 0, heap);
    require(math != nullptr, "the driver loads the kernels");
    stream = Stream::from_handle(queue->handle());
  }

  std::shared_ptr<GpuLibraries> libraries;
  const CudaApi& cuda = libraries->cuda;
  std::optional<CudaStream> queue;
  std::shared_ptr<GpuHeap> heap;
  std::unique_ptr<GpuKernels> math;
  Stream stream;
};

// Holds elements on the host and equal ones on the GPU. With `offset` elements before the first one, the elements are
// not aligned for vectors.
class GpuArray {
 public:
  GpuArray(GpuUnderTest& gpu, DataType type, std::size_t count, std::size_t offset = 0)
      : gpu_(gpu), type_(type), count_(count), offset_(offset), bytes_((offset + count + 1) * size_of(type)) {
    require_cuda(gpu_.cuda, gpu_.cuda.allocate(memory_, bytes_.size()), "allocate");
    upload();
  }
  ~GpuArray() {
    download();  // the stream may still use the memory
    gpu_.cuda.release(memory_);
  }
  GpuArray(const GpuArray&) = delete;
  GpuArray& operator=(const GpuArray&) = delete;

  Buffer host() { return {bytes_.data() + offset_ * size_of(type_), count_, type_}; }
  Buffer gpu() const {
    return {static_cast<std::byte*>(memory_) + offset_ * size_of(type_), count_, type_, DeviceType::cuda};
  }
  template <typename T>
  std::span<T> values() {
    return host().as<T>();
  }
  // Makes the elements on the GPU equal to those on the host.
  void upload() {
    if (!bytes_.empty()) copy_now(gpu_.cuda, memory_, bytes_.data(), bytes_.size());
  }
  // Returns the elements on the GPU, when the work on the stream is done.
  std::vector<std::byte> download() const {
    CudaEvents(gpu_.cuda).finish(gpu_.stream.handle(), kPatience);
    std::vector<std::byte> all(bytes_.size());
    copy_now(gpu_.cuda, all.data(), memory_, all.size());
    return all;
  }
  template <typename T>
  std::vector<T> downloaded() const {
    const std::vector<std::byte> all = download();
    std::vector<T> result(count_);
    if (count_ > 0) std::memcpy(result.data(), all.data() + offset_ * sizeof(T), count_ * sizeof(T));
    return result;
  }

  // Returns the index of the first element that differs, with those around the array, or -1. All NaNs are equal.
  std::ptrdiff_t first_difference() {
    const std::vector<std::byte> all = download();
    const std::size_t size = size_of(type_);
    for (std::size_t i = 0; i < all.size() / size; ++i) {
      const std::byte* own = bytes_.data() + i * size;
      const std::byte* other = all.data() + i * size;
      if (std::memcmp(own, other, size) != 0 && !(is_nan(own) && is_nan(other))) {
        return static_cast<std::ptrdiff_t>(i);
      }
    }
    return -1;
  }

  // Fills the array with random numbers of every magnitude, or near 1, and with special ones among them.
  void fill(std::mt19937_64& random, bool with_special = true) {
    std::normal_distribution<double> normal;
    for (std::size_t i = 0; i < count_; ++i) {
      const std::uint64_t draw = random();
      std::uint64_t bits = number(normal(random));
      if (with_special && draw % 4 == 0) bits = random();  // any pattern of bits
      if (with_special && draw % 16 == 1) bits = special(draw / 16 % 6);
      std::memcpy(bytes_.data() + (offset_ + i) * size_of(type_), &bits, size_of(type_));
    }
    upload();
  }

 private:
  std::uint64_t number(double value) const {
    if (type_ == DataType::f64) return std::bit_cast<std::uint64_t>(value);
    const auto single = static_cast<float>(value);
    if (type_ == DataType::f32) return std::bit_cast<std::uint32_t>(single);
    return type_ == DataType::f16 ? Float16(single).bits : BFloat16(single).bits;
  }
  // Returns 0, -0, infinity, -infinity, NaN, or the smallest number.
  std::uint64_t special(std::uint64_t which) const {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    constexpr std::array kNumbers = {0.0, -0.0, kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN()};
    return which < kNumbers.size() ? number(kNumbers[which]) : 1;
  }
  bool is_nan(const std::byte* element) const {
    switch (type_) {
      case DataType::f16:
        return is_nan_as<Float16, float>(element);
      case DataType::bf16:
        return is_nan_as<BFloat16, float>(element);
      case DataType::f32:
        return is_nan_as<float, float>(element);
      case DataType::f64:
        return is_nan_as<double, double>(element);
      default:
        return false;
    }
  }
  template <typename T, typename Number>
  static bool is_nan_as(const std::byte* element) {
    T value;
    std::memcpy(&value, element, sizeof value);
    return std::isnan(static_cast<Number>(value));
  }

  GpuUnderTest& gpu_;
  const DataType type_;
  const std::size_t count_;
  const std::size_t offset_;
  std::vector<std::byte> bytes_;
  void* memory_ = nullptr;
};

inline constexpr std::array kFloatingPointTypes = {DataType::f16, DataType::bf16, DataType::f32, DataType::f64};

}  // namespace ddp::test
