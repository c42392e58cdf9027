// LossScaler: keeps small f16 gradients from vanishing.
#pragma once

#include <ddp/distributed_data_parallel.h>
#include <ddp/optimizer.h>

#include <array>
#include <cstdint>
#include <vector>

namespace ddp {

struct LossScalerOptions {
  double scale = 65536;
  double growth = 2;     // after growth_interval steps without overflow
  double backoff = 0.5;  // after one with
  std::int64_t growth_interval = 2000;
};

// The loss is multiplied by scale(), so the gradients are; a step whose gradients overflow is skipped, by all ranks
// together, and the scale lowered. As torch.cuda.amp.GradScaler. One thread; the same calls on all ranks.
//
//   backward(loss * scaler.scale());
//   data_parallel.finish();
//   if (scaler.unscale(optimizer)) optimizer.step();
class DDP_EXPORT LossScaler {
 public:
  // Throws invalid_argument if an option is out of range.
  explicit LossScaler(LossScalerOptions options = {});

  double scale() const { return state_[0]; }

  // Adapts the scale, and has the optimizer's next step() divide by what it was, in f32: so what is too small for f16
  // counts. False if a gradient was infinite or NaN, on any rank: the step must be skipped. Once a step. The gradients
  // stay scaled: clip them before, to max_norm * scale(). Throws as DistributedDataParallel::require_synchronized().
  bool unscale(Optimizer& optimizer, CallSite site = CallSite::current());

  // For an optimizer of your own: divides the gradients themselves. Throws invalid_argument if some are f16, in which
  // the small ones would vanish again.
  bool unscale(DistributedDataParallel& data_parallel, CallSite site = CallSite::current());

  // For checkpoints: "loss_scaler", the scale and the steps since it changed.
  Tensor state() { return {"loss_scaler", state_, {2}}; }

 private:
  // The factor by which this step's gradients are to be multiplied, or 0: skip it.
  double adapt(DistributedDataParallel& data_parallel);

  LossScalerOptions options_;
  std::array<double, 2> state_;
};

}  // namespace ddp
