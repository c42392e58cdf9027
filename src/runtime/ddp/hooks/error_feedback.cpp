#include "runtime/ddp/hooks/error_feedback.h"

#include "runtime/reduction/reduction.h"

namespace ddp {

void ErrorFeedback::corrected(const Tensor& gradient, float scale, std::span<float> to) {
  std::vector<float>& error = errors_[gradient.name];
  error.resize(gradient.data.count);
  to_single(gradient.data, to.data());
  for (std::size_t i = 0; i < error.size(); ++i) to[i] = to[i] * scale + error[i];
}

}  // namespace ddp
