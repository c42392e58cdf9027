// ErrorFeedback keeps the error that compression makes in each gradient, and adds it to the next one. It uses single
// precision.
#pragma once

#include <ddp/extension/communication_hook.h>

#include <vector>

#include "runtime/ddp/hooks/compression_math.h"
#include "runtime/ddp/hooks/parameter_state.h"

namespace ddp::internal {

class ErrorFeedback {
 public:
  // Makes room for the errors of those gradients of the bucket that are compressed. The other functions follow.
  void prepare(const ProcessGroup& group, const GradientBucket& bucket, const CompressionMath& math,
               const std::vector<Tensor>& compressed);

  // Writes `gradient` times local_scale(), plus the stored error, to `to`, which has as many elements.
  void corrected(const CompressionMath& math, const Tensor& gradient, double scale, const Buffer& to) const;

  // Returns the memory in which the caller stores the error of the compression. It has as many elements as the
  // gradient. It is valid until the next prepare().
  const Buffer& left_out(const Tensor& gradient) const { return errors_.at(gradient.name); }

 private:
  ParameterState errors_;
};

// Returns 1 unless micro-steps are accumulated. The bucket's mean is the mean over the ranks of their gradients times
// this scale.
inline double local_scale(const GradientBucket& bucket, int size) {
  return bucket.factor * size;
}

}  // namespace ddp::internal
