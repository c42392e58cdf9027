// ErrorFeedback keeps the error that compression makes in each gradient, and adds it to the next one. It uses single
// precision.
#pragma once

#include <ddp/extension/communication_hook.h>

#include <map>
#include <span>
#include <string>
#include <vector>

namespace ddp::internal {

// The errors are stored by the parameters' names, because buckets are filled anew after the first step.
class ErrorFeedback {
 public:
  // Writes `gradient` times `scale`, plus the stored error, to `to`, which has as many elements. `scale` is
  // local_scale().
  void corrected(const Tensor& gradient, float scale, std::span<float> to);

  // Returns the memory in which the caller stores the error of the compression. It has as many elements as the
  // gradient. It is valid until the next corrected() of the same gradient.
  std::span<float> left_out(const Tensor& gradient) { return errors_[gradient.name]; }

 private:
  std::map<std::string, std::vector<float>> errors_;
};

// Returns 1 unless micro-steps are accumulated. The bucket's mean is the mean over the ranks of their gradients times
// this scale.
inline float local_scale(const GradientBucket& bucket, int size) {
  return static_cast<float>(bucket.factor * size);
}

}  // namespace ddp::internal
