// GpuMath computes with the elements of buffers in GPU memory.
// See docs/development/decisions/0044-kernels-as-ptx-text.md.
#pragma once

#include <ddp/buffer.h>
#include <ddp/optimizer.h>
#include <ddp/stream.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "runtime/reduction/optimizer_step.h"

namespace ddp::internal {

// A parameter of a kernel for GPUs. The value is as large as its type.
struct KernelParameter {
  const void* value = nullptr;
  std::string_view type;  // in PTX: "u32", "u64" (pointers too) or "f64"
};

// `value` must outlive the result.
template <typename T>
KernelParameter kernel_parameter(const T& value) {
  if constexpr (std::is_same_v<T, double>) {
    return {&value, "f64"};
  } else if constexpr (std::is_same_v<T, std::uint32_t>) {
    return {&value, "u32"};
  } else {
    static_assert(std::is_pointer_v<T> || std::is_same_v<T, std::uint64_t>);
    return {&value, "u64"};
  }
}

// Unless a comment says otherwise, a function puts its work on the stream and returns before the work is done. Every
// buffer lies in the memory of this rank's GPU and has elements of a floating-point type (f16, bf16, f32, f64). f16 and
// bf16 are computed in f32 and rounded once, to the nearest, ties to even. The results are bit-identical in every run,
// so that ranks that compute the same stay equal. Any thread may call a function, one at a time per stream. Functions
// throw `internal` with CUDA's name for an error.
class GpuMath {
 public:
  virtual ~GpuMath() = default;

  // Computes values[i] *= factor.
  virtual void scale(const Buffer& values, double factor, Stream stream) = 0;
  // Computes to[i] = from[i] * factor in the type of `to`. The buffers have equally many elements and do not overlap.
  virtual void convert(const ConstBuffer& from, const Buffer& to, double factor, Stream stream) = 0;
  // Computes to[i] += from[i] * factor for f32. An element of `from` that is not finite counts as 0 if `only_finite` is
  // set.
  virtual void add(const ConstBuffer& from, double factor, bool only_finite, const Buffer& to, Stream stream) = 0;

  // These functions block until the work that is on the stream now is done.
  virtual double sum_of_squares(std::span<const ConstBuffer> buffers, Stream stream) = 0;
  virtual bool are_finite(std::span<const ConstBuffer> buffers, Stream stream) = 0;

  // Applies one step of an optimizer, as update() in update_rules.h does in host memory.
  virtual void update(const Optimizer::Options& options, std::int64_t step, const UpdatedElements& elements,
                      Stream stream) = 0;

  // These constants are those of all kernels: threads of a block, and elements that a block loads at once.
  static constexpr unsigned kThreads = 256;
  static constexpr std::uint64_t kTile = std::uint64_t{kThreads} * 4;
  // This many blocks fill the largest GPUs of today. The number must not depend on the GPU, because sums depend on it.
  static constexpr std::uint64_t kMostBlocks = 1024;
  static std::uint64_t blocks_for(std::uint64_t count, std::uint64_t per_block = kTile,
                                  std::uint64_t most = kMostBlocks) {
    return std::clamp((count + per_block - 1) / per_block, std::uint64_t{1}, most);
  }
  // Starts the kernel `ddp_<kernel>` of the library. The values are its parameters, in its order and of its types.
  template <typename... Values>
  void launch(const std::string& kernel, std::uint64_t blocks, Stream stream, const Values&... values) {
    const std::array parameters{kernel_parameter(values)...};
    launch_kernel("ddp_" + kernel, blocks, parameters, stream);
  }
  // Returns memory for intermediate results of the work on the stream. The next call for the stream may return the same
  // memory, and sum_of_squares() and are_finite() use it, too.
  virtual std::byte* scratch(std::size_t bytes, Stream stream) = 0;

  // The stream will be destroyed. Gives back what was kept for it.
  virtual void forget(Stream stream) = 0;

 private:
  virtual void launch_kernel(const std::string& kernel, std::uint64_t blocks,
                             std::span<const KernelParameter> parameters, Stream stream) = 0;
};

}  // namespace ddp::internal
