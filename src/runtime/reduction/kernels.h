// The reductions are compiled once for each kind of processor. This file declares the table that holds them.
#pragma once

#include <ddp/data_type.h>

#include <array>
#include <cstddef>

#include "runtime/reduction/reduction.h"

namespace ddp::internal {

// Computes reduce() for one type and one operation, with at least one source and one destination.
using ReductionKernel = void (*)(std::span<const ReductionSource> sources, std::span<void* const> destinations,
                                 std::size_t count);

struct ReductionKernels {
  // A step names the computation of a kernel. Two operations of ReduceOp may use the same step, and one operation may
  // use two.
  enum Step : std::size_t { sum, scaled_sum, product, min, max, bit_and, bit_or, bit_xor, kSteps };

  std::array<std::array<ReductionKernel, kSteps>, kDataTypes.size()> table{};  // null if not defined

  // These arrays are indexed by type; the floating-point types come first.
  static constexpr std::size_t kFloatingPointTypes = 4;
  std::array<void (*)(const void* from, float* to, std::size_t count), kFloatingPointTypes> to_single{};
  std::array<void (*)(const float* from, void* to, std::size_t count), kFloatingPointTypes> from_single{};

  ReductionKernel at(DataType type, Step step) const { return table[static_cast<std::size_t>(type)][step]; }
};

extern const ReductionKernels kPortableKernels;
#ifdef __x86_64__
extern const ReductionKernels kAvx2Kernels;  // for processors with AVX2 and F16C
#endif

// Returns the best kernels for the processor that runs this code.
const ReductionKernels& reduction_kernels();

}  // namespace ddp::internal
