#include "runtime/ddp/element_math.h"

#include <ddp/error.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "runtime/backend/backend.h"
#include "runtime/backend/gpu_math.h"
#include "runtime/ddp/update_rules.h"
#include "runtime/group/group_core.h"
#include "runtime/reduction/reduction.h"

namespace ddp::internal {
namespace {

// The loop computes this many sums, which do not wait for each other.
constexpr std::size_t kLanes = 8;

template <typename T>
double sum_of_squares(const ConstBuffer& buffer) {
  const std::span<const T> values(static_cast<const T*>(buffer.data), buffer.count);
  using Number = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const auto square = [](T value) {
    const auto number = static_cast<double>(static_cast<Number>(value));
    return number * number;
  };
  std::array<double, kLanes> sums{};
  std::size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += square(values[i + lane]);
  }
  for (; i < values.size(); ++i) sums[0] += square(values[i]);
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

// x - x is 0 for every finite x, and only for these. Without an early exit, the compiler vectorizes the loop.
template <typename T>
bool all_finite(const T* values, std::size_t count) {
  std::size_t odd = 0;
  for (std::size_t i = 0; i < count; ++i) odd += values[i] - values[i] == 0 ? 0 : 1;
  return odd == 0;
}

// Converts through a small array of floats that stays in the cache.
void convert_on_host(const ConstBuffer& from, const Buffer& to, float factor) {
  if (factor == 1 && from.type == DataType::f32) return from_single(static_cast<const float*>(from.data), to);
  std::array<float, 1024> block;
  for (std::size_t first = 0; first < from.count; first += block.size()) {
    const std::size_t count = std::min(block.size(), from.count - first);
    to_single(from.slice(first, count), block.data());
    if (factor != 1) {
      for (float& value : block) value *= factor;
    }
    from_single(block.data(), to.slice(first, count));
  }
}

// Kernels cannot be launched for no elements.
std::vector<ConstBuffer> without_empty(std::span<const Buffer> buffers) {
  std::vector<ConstBuffer> result;
  for (const Buffer& buffer : buffers) {
    if (buffer.count > 0) result.emplace_back(buffer);
  }
  return result;
}

}  // namespace

ElementMath::ElementMath(const ProcessGroup& group, Stream stream, const std::string& what) : stream_(stream) {
  if (!stream) return;
  gpu_ = group.core().backend().gpu_math();
  if (gpu_ != nullptr) return;
  throw Error(ErrorKind::unavailable,
              what +
                  ": the data is in GPU memory, and the GPU's driver cannot load this library's kernels. Update the "
                  "driver, or use kernels of the program on the same stream");
}

bool ElementMath::is_available(const ProcessGroup& group, Stream stream) {
  return !stream || group.core().backend().gpu_math() != nullptr;
}

void ElementMath::scale(const Buffer& buffer, double factor) const {
  if (buffer.count == 0) return;
  gpu_ != nullptr ? gpu_->scale(buffer, factor, stream_) : internal::scale(buffer, factor);
}

void ElementMath::convert(const ConstBuffer& from, const Buffer& to, double factor) const {
  DDP_CHECK(from.count == to.count, from.count, to.count);
  if (from.count == 0) return;
  if (gpu_ != nullptr) return gpu_->convert(from, to, factor, stream_);
  convert_on_host(from, to, static_cast<float>(factor));
}

void ElementMath::copy(const ConstBuffer& from, const Buffer& to) const {
  DDP_CHECK(from.bytes() == to.bytes() && from.type == to.type, from.bytes(), to.bytes());
  if (from.count == 0) return;
  if (gpu_ != nullptr) return gpu_->convert(from, to, 1, stream_);
  std::memcpy(to.data, from.data, from.bytes());
}

void ElementMath::update(const Optimizer::Options& options, std::int64_t step, const UpdatedElements& elements) const {
  if (elements.values.count == 0) return;
  gpu_ != nullptr ? gpu_->update(options, step, elements, stream_) : internal::update(options, step, elements);
}

double ElementMath::sum_of_squares(std::span<const Buffer> buffers) const {
  if (gpu_ != nullptr) return gpu_->sum_of_squares(without_empty(buffers), stream_);
  double sum = 0;
  for (const Buffer& buffer : buffers) sum += internal::sum_of_squares(buffer);
  return sum;
}

bool ElementMath::are_finite(std::span<const Buffer> buffers) const {
  if (gpu_ != nullptr) return gpu_->are_finite(without_empty(buffers), stream_);
  return std::ranges::all_of(buffers, [](const Buffer& buffer) { return is_finite(buffer); });
}

ReduceOp prepare_mean(const ProcessGroup& group, const Buffer& buffer, double factor, Stream stream) {
  const bool is_on_gpu = buffer.device == DeviceType::cuda && stream;
  GpuMath* const gpu = is_on_gpu && is_floating_point(buffer.type) ? group.core().backend().gpu_math() : nullptr;
  if (gpu == nullptr) {
    // A plain average is bit-identical to ReduceOp::average.
    return factor == 1.0 / group.size() ? ReduceOp(ReduceOp::average) : ReduceOp::premultiplied(factor);
  }
  if (factor != 1 && buffer.count > 0) gpu->scale(buffer, factor, stream);
  return ReduceOp::sum;
}

bool is_finite(const ConstBuffer& buffer) {
  if (buffer.type == DataType::f64) return all_finite(static_cast<const double*>(buffer.data), buffer.count);
  std::array<float, 1024> block;
  for (std::size_t first = 0; first < buffer.count; first += block.size()) {
    const std::size_t count = std::min(block.size(), buffer.count - first);
    to_single(buffer.slice(first, count), block.data());
    if (!all_finite(block.data(), count)) return false;
  }
  return true;
}

double sum_of_squares(const ConstBuffer& buffer) {
  switch (buffer.type) {
    case DataType::f16:
      return sum_of_squares<Float16>(buffer);
    case DataType::bf16:
      return sum_of_squares<BFloat16>(buffer);
    case DataType::f32:
      return sum_of_squares<float>(buffer);
    case DataType::f64:
      return sum_of_squares<double>(buffer);
    default:
      throw Error(ErrorKind::invalid_argument,
                  "cannot compute the norm of elements of type " + std::string(to_string(buffer.type)));
  }
}

}  // namespace ddp::internal
