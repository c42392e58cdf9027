#include "runtime/ddp/element_math.h"

#include <ddp/error.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "runtime/backend/backend.h"
#include "runtime/backend/gpu_math.h"
#include "runtime/ddp/gradient_norm.h"
#include "runtime/ddp/update_rules.h"
#include "runtime/group/group_core.h"
#include "runtime/reduction/reduction.h"

namespace ddp::internal {
namespace {

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

}  // namespace ddp::internal
