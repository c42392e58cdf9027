// CompressionMath adds to ElementMath what the compression hooks compute, in host memory or in GPU memory.
#pragma once

#include <ddp/extension/communication_hook.h>

#include <string>

#include "runtime/ddp/element_math.h"
#include "runtime/reduction/matrix_shape.h"

namespace ddp::internal {

// All values are f32, and indices are i32, read as unsigned. gpu_math.h defines the functions, and low_rank.h the
// products. In GPU memory, the results differ from those in host memory only in the rounding of long sums.
class CompressionMath : public ElementMath {
 public:
  CompressionMath(const ProcessGroup& group, const GradientBucket& bucket, const std::string& what)
      : ElementMath(group, bucket.stream, what) {}

  void add(const ConstBuffer& from, double factor, bool only_finite, const Buffer& to) const;

  void take_largest(const Buffer& values, const Buffer& indices, const Buffer& picked) const;
  void scatter_add(const ConstBuffer& indices, const ConstBuffer& values, double factor, const Buffer& to) const;

  void multiply(const MatrixShape& shape, const ConstBuffer& m, const ConstBuffer& q, const Buffer& p) const;
  void multiply_transposed(const MatrixShape& shape, const ConstBuffer& m, const ConstBuffer& p, const Buffer& q) const;
  void expand(const MatrixShape& shape, const ConstBuffer& p, const ConstBuffer& q, const Buffer& m) const;
  void orthonormalise(const MatrixShape& shape, const Buffer& p) const;
  void replace_columns(const MatrixShape& shape, const ConstBuffer& fallback, const Buffer& q) const;
};

// Returns where the gradients of a bucket are.
inline DeviceType device_of(const GradientBucket& bucket) {
  return bucket.stream ? DeviceType::cuda : DeviceType::cpu;
}

}  // namespace ddp::internal
