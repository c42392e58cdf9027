#include <ddp/error.h>
#include <ddp/loss_scaler.h>

namespace ddp {

LossScaler::LossScaler(LossScalerOptions options) : options_(options), state_{options.scale, 0} {
  if (options.scale > 0 && options.growth >= 1 && options.backoff > 0 && options.backoff < 1 &&
      options.growth_interval >= 1) {
    return;
  }
  throw Error(ErrorKind::invalid_argument,
              "LossScaler: scale is more than 0, growth 1 or more, backoff between 0 and 1, growth_interval 1 or more");
}

bool LossScaler::unscale(DistributedDataParallel& data_parallel) {
  if (!data_parallel.gradients_are_finite()) {
    state_ = {scale() * options_.backoff, 0};
    return false;
  }
  data_parallel.scale_gradients(1 / scale());
  state_[1] += 1;
  if (state_[1] >= static_cast<double>(options_.growth_interval)) state_ = {scale() * options_.growth, 0};
  return true;
}

}  // namespace ddp
