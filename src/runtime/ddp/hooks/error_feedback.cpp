#include "runtime/ddp/hooks/error_feedback.h"

namespace ddp::internal {

void ErrorFeedback::prepare(const ProcessGroup& group, const GradientBucket& bucket, const CompressionMath& math,
                            const std::vector<Tensor>& compressed) {
  std::vector<ParameterState::Size> sizes;
  for (const Tensor& gradient : compressed) sizes.push_back({gradient.name, gradient.data.count});
  errors_.place(group, bucket, math, sizes);
}

// An overflow (a loss scale that was too high) affects only its own step, so errors that are not finite are left out.
void ErrorFeedback::corrected(const CompressionMath& math, const Tensor& gradient, double scale,
                              const Buffer& to) const {
  math.convert(gradient.data, to, scale);
  math.add(left_out(gradient), 1, true, to);
}

}  // namespace ddp::internal
