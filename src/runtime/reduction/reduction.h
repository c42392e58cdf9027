// Declares element-wise reductions on host memory, which combine the values of several ranks.
#pragma once

#include <ddp/buffer.h>
#include <ddp/reduce_op.h>

#include <cstddef>
#include <span>

namespace ddp::internal {

// Holds one rank's elements, each of which counts `factor` times (only in sums of floating-point values).
struct ReductionSource {
  const void* data = nullptr;
  double factor = 1;
};

// Returns the factor of each value of a rank in a group of `size`: 1/size for average, the operation's own factor for
// premultiplied_sum, else 1.
double factor_of(ReduceOp op, int size);

// Computes destinations[k][i] = sources[0][i] (op) sources[1][i] (op) ..., in that order. So the result does not depend
// on which rank computes it. f16 and bf16 are computed in f32 and rounded once. A destination may be one of the
// sources; else nothing overlaps. Elements lie at multiples of their size. The result is bit-identical on every CPU.
void reduce(DataType type, ReduceOp op, std::span<const ReductionSource> sources, std::span<void* const> destinations,
            std::size_t count);

// Computes data[i] *= factor, for a floating-point type.
void scale(const Buffer& buffer, double factor);

// These functions convert as many elements as the buffer has, of a floating-point type, to and from single precision.
// Values are rounded to the nearest.
void to_single(const ConstBuffer& from, float* to);
void from_single(const float* from, const Buffer& to);

}  // namespace ddp::internal
