// The reductions compiled once for each kind of processor, and the table that they are found in.
#pragma once

#include <ddp/data_type.h>

#include <array>
#include <cstddef>

#include "runtime/reduction/reduction.h"

namespace ddp::internal {

// As reduce(), for one type and one operation; at least one source and one destination.
using ReductionKernel = void (*)(std::span<const ReductionSource> sources, std::span<void* const> destinations,
                                 std::size_t count);

struct ReductionKernels {
  // What a kernel computes: two operations of ReduceOp may be one of these, as may one operation be two.
  enum Step : std::size_t { sum, scaled_sum, product, min, max, bit_and, bit_or, bit_xor, kSteps };

  std::array<std::array<ReductionKernel, kSteps>, kDataTypes.size()> table{};  // null where not defined

  // By type; the floating-point ones come first.
  static constexpr std::size_t kFloatingPointTypes = 4;
  std::array<void (*)(const void* from, float* to, std::size_t count), kFloatingPointTypes> to_single{};
  std::array<void (*)(const float* from, void* to, std::size_t count), kFloatingPointTypes> from_single{};

  ReductionKernel at(DataType type, Step step) const { return table[static_cast<std::size_t>(type)][step]; }
};

extern const ReductionKernels kPortableKernels;
#ifdef __x86_64__
extern const ReductionKernels kAvx2Kernels;  // AVX2 and F16C
#endif

// The best for the processor that runs this.
const ReductionKernels& reduction_kernels();

}  // namespace ddp::internal
