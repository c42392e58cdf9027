#include "runtime/ddp/hooks/error_feedback.h"

#include <cmath>

#include "runtime/reduction/reduction.h"

namespace ddp::internal {

void ErrorFeedback::corrected(const Tensor& gradient, float scale, std::span<float> to) {
  std::vector<float>& error = errors_[gradient.name];
  error.resize(gradient.data.count);
  to_single(gradient.data, to.data());
  // An overflow (a loss scale that was too high) affects only its own step.
  for (std::size_t i = 0; i < error.size(); ++i) to[i] = to[i] * scale + (std::isfinite(error[i]) ? error[i] : 0);
}

}  // namespace ddp::internal
