// Element-wise reductions on host memory: what several ranks have becomes what all of them get.
#pragma once

#include <ddp/buffer.h>
#include <ddp/reduce_op.h>

#include <cstddef>
#include <span>

namespace ddp::internal {

// One rank's elements, each of which counts `factor` times (sums of floating-point values only).
struct ReductionSource {
  const void* data = nullptr;
  double factor = 1;
};

// The factor of each value of a rank in a group of `size`: 1/size for average, premultiplied_sum's own, else 1.
double factor_of(ReduceOp op, int size);

// destinations[k][i] = sources[0][i] (op) sources[1][i] (op) ..., in that order, so that the result does not depend on
// who computes it. f16 and bf16 are computed in f32 and rounded once. A destination may be one of the sources; else
// nothing overlaps. Elements lie at multiples of their size. The result has the same bits on every CPU.
void reduce(DataType type, ReduceOp op, std::span<const ReductionSource> sources, std::span<void* const> destinations,
            std::size_t count);

// data[i] *= factor, of a floating-point type.
void scale(const Buffer& buffer, double factor);

// As many elements as the buffer has, of a floating-point type, to and from single precision; rounded to the nearest.
void to_single(const ConstBuffer& from, float* to);
void from_single(const float* from, const Buffer& to);

}  // namespace ddp::internal
