#include <ddp/loss_scaler.h>

#include <algorithm>

#include "runtime/call/called_from.h"
#include "runtime/ddp/data_parallel_engine.h"

namespace ddp {

using namespace internal;

namespace {

// If every step overflows, the model is the cause, and no smaller scale helps.
constexpr double kLeastScale = 1.0 / (1 << 24);

}  // namespace

LossScaler::LossScaler(LossScalerOptions options) : options_(options), state_{options.scale, 0} {
  if (options.scale > 0 && options.growth >= 1 && options.backoff > 0 && options.backoff < 1 &&
      options.growth_interval >= 1) {
    return;
  }
  refuse(
      "LossScaler: scale must be more than 0, growth 1 or more, backoff between 0 and 1, and growth_interval 1 "
      "or more");
}

bool LossScaler::unscale(Optimizer& optimizer, CallSite site) {
  const CalledFrom here(site);
  if (optimizer.gradients_are_scaled()) {
    refuse("LossScaler::unscale: already called in this step. Call it once, between finish() and step()");
  }
  const double factor = adapt(optimizer.data_parallel());
  if (factor != 0) optimizer.scale_next_gradients(factor);
  return factor != 0;
}

bool LossScaler::unscale(const DistributedDataParallel& data_parallel, CallSite site) {
  const CalledFrom here(site);
  for (const Tensor& parameter : data_parallel.parameters()) {
    if (parameter.data.type != DataType::f16) continue;
    refuse("LossScaler::unscale: the gradient of '" + parameter.name +
           "' is f16, in which small values vanish when they are divided. Pass "
           "the Optimizer instead, which divides in f32");
  }
  const double factor = adapt(data_parallel);
  if (factor != 0) data_parallel.scale_gradients(factor);
  return factor != 0;
}

double LossScaler::adapt(const DistributedDataParallel& data_parallel) {
  const bool is_finite = data_parallel.gradients_are_finite();
  if (data_parallel.engine().is_rehearsing()) return is_finite ? 1 / scale() : 0;
  if (!is_finite) {
    state_ = {std::max(scale() * options_.backoff, kLeastScale), 0};
    return 0;
  }
  const double factor = 1 / scale();
  state_[1] += 1;
  if (state_[1] >= static_cast<double>(options_.growth_interval)) state_ = {scale() * options_.growth, 0};
  return factor;
}

}  // namespace ddp
