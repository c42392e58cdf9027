// CompressionMath computes what the compression hooks need, in host memory or in GPU memory. It is the only part of the
// hooks that uses more than the public interface.
#pragma once

#include <ddp/extension/communication_hook.h>

#include <cstddef>
#include <string>

#include "runtime/ddp/element_math.h"

namespace ddp::internal {

// Describes a low-rank approximation of a matrix: M [rows, columns] ~ P [rows, rank] transpose(Q [columns, rank]).
struct MatrixShape {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t rank = 0;
};

// Except for convert() and copy(), all values are f32, and matrices are row-major. Indices are i32, read as unsigned.
// In GPU memory, the results differ from those in host memory only in the rounding of long sums. They are bit-identical
// in every run.
class CompressionMath : private ElementMath {
 public:
  CompressionMath(const ProcessGroup& group, const GradientBucket& bucket, const std::string& what)
      : ElementMath(group, bucket.stream, what) {}
  // Computes with these kernels, or in host memory if `gpu` is null.
  CompressionMath(GpuMath* gpu, Stream stream) : ElementMath(gpu, stream) {}

  using ElementMath::convert;
  using ElementMath::copy;

  // Computes to[i] += from[i] * factor.
  void add(const ConstBuffer& from, double factor, const Buffer& to) const;
  // Computes to[i] = gradient[i] * scale + error[i]. An overflow (a loss scale that was too high) affects only its own
  // step, so errors that are not finite are left out.
  void correct(const ConstBuffer& gradient, double scale, const ConstBuffer& error, const Buffer& to) const;

  // Selects the indices.count elements of `values` (at most 2^32) with the largest magnitudes. Of equal magnitudes it
  // takes the first; a NaN counts as infinite. `indices` ascends, and picked[k] is values[indices[k]]. The selected
  // elements of `values` become 0.
  void take_largest(const Buffer& values, const Buffer& indices, const Buffer& picked) const;
  // Computes to[indices[k]] += values[k] * factor. No index occurs twice.
  void scatter_add(const ConstBuffer& indices, const ConstBuffer& values, double factor, const Buffer& to) const;

  // Computes P = M Q.
  void multiply(const MatrixShape& shape, const ConstBuffer& m, const ConstBuffer& q, const Buffer& p) const;
  // Computes Q = transpose(M) P.
  void multiply_transposed(const MatrixShape& shape, const ConstBuffer& m, const ConstBuffer& p, const Buffer& q) const;
  // Computes M = P transpose(Q).
  void expand(const MatrixShape& shape, const ConstBuffer& p, const ConstBuffer& q, const Buffer& m) const;
  // Makes the columns of P orthogonal and of length 1 by the modified Gram-Schmidt process, twice for accuracy. A
  // column that depends on those before it, or is 0, becomes 0.
  void orthonormalise(const MatrixShape& shape, const Buffer& p) const;
  // Copies a column of `fallback` to Q if all elements of that column of Q are 0, or one is not finite.
  void replace_columns(const MatrixShape& shape, const ConstBuffer& fallback, const Buffer& q) const;
};

// Returns where the gradients of a bucket are.
inline DeviceType device_of(const GradientBucket& bucket) {
  return bucket.stream ? DeviceType::cuda : DeviceType::cpu;
}

// Returns 1 unless micro-steps are accumulated. The bucket's mean is the mean over the ranks of their gradients times
// this scale.
inline double local_scale(const GradientBucket& bucket, int size) {
  return bucket.factor * size;
}

}  // namespace ddp::internal
