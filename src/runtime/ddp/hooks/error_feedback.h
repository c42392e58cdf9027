// What compression left out of each gradient, to be added to the next one. In single precision.
#pragma once

#include <ddp/extension/communication_hook.h>

#include <map>
#include <span>
#include <string>
#include <vector>

namespace ddp::internal {

// Kept by the parameters' names: buckets are filled anew after the first step.
class ErrorFeedback {
 public:
  // `gradient`, times this rank's part of `factor` times the group's size, and what was left out before. Written to
  // `to`, which has as many elements.
  void corrected(const Tensor& gradient, float scale, std::span<float> to);

  // To be filled with what the compression leaves out; as many elements as the gradient. Valid until the next
  // corrected() of the same gradient.
  std::span<float> left_out(const Tensor& gradient) { return errors_[gradient.name]; }

 private:
  std::map<std::string, std::vector<float>> errors_;
};

// 1 unless micro-steps are accumulated: the mean over the ranks of each one's gradient times this is the bucket's mean.
inline float local_scale(const GradientBucket& bucket, int size) {
  return static_cast<float>(bucket.factor * size);
}

}  // namespace ddp::internal
