// LossScaler keeps small f16 gradients from vanishing.
#pragma once

#include <ddp/distributed_data_parallel.h>
#include <ddp/optimizer.h>

#include <array>
#include <cstdint>
#include <vector>

namespace ddp {

struct LossScalerOptions {
  double scale = 65536;
  double growth = 2;     // factor after growth_interval steps without overflow
  double backoff = 0.5;  // factor after a step with overflow
  std::int64_t growth_interval = 2000;
};

// The program multiplies the loss by scale(), which scales the gradients too. If gradients overflow, all ranks skip the
// step together and lower the scale, as torch.cuda.amp.GradScaler does. Use it from one thread, with the same calls on
// all ranks.
//
//   backward(loss * scaler.scale());
//   data_parallel.finish();
//   if (scaler.unscale(optimizer)) optimizer.step();
class DDP_EXPORT LossScaler {
 public:
  // Throws invalid_argument if an option is out of range.
  explicit LossScaler(LossScalerOptions options = {});

  double scale() const { return state_[0]; }

  // Adapts the scale. The optimizer's next step() divides by the previous scale in f32, so that values too small for
  // f16 are not lost. Returns false if a gradient was infinite or NaN on any rank; the program must then skip the step.
  // Call it once per step. The gradients stay scaled, so clip them before it, to max_norm * scale(). Throws as
  // DistributedDataParallel::require_synchronized().
  bool unscale(Optimizer& optimizer, CallSite site = CallSite::current());

  // Divides the gradients themselves, for an optimizer of the program. Throws invalid_argument if some are f16, in
  // which small values would vanish again.
  bool unscale(const DistributedDataParallel& data_parallel, CallSite site = CallSite::current());

  // Returns the scale and the steps since it changed as the tensor "loss_scaler", for checkpoints.
  Tensor state() { return {"loss_scaler", state_, {2}}; }

 private:
  // Returns the factor for this step's gradients, or 0 if the step must be skipped.
  double adapt(const DistributedDataParallel& data_parallel);

  LossScalerOptions options_;
  std::array<double, 2> state_;
};

}  // namespace ddp
