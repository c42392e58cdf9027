// Optimizer implements SGD, Adam and AdamW over the parameters of a DistributedDataParallel. It is sharded over the
// ranks if that is.
#pragma once

#include <ddp/buffer.h>
#include <ddp/distributed_data_parallel.h>

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace ddp {

// Computes as torch.optim.SGD, where b = g in the first step: g += weight_decay * p; b = momentum * b + (1 - dampening)
// * g; p -= learning_rate * (nesterov ? g + momentum * b : b).
struct SgdOptions {
  double learning_rate = 1e-2;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

// Computes as torch.optim.Adam and AdamW (Kingma and Ba, arXiv:1412.6980; Loshchilov and Hutter, arXiv:1711.05101):
//   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   p -= learning_rate * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)
// If weight decay is decoupled (AdamW), p -= learning_rate * weight_decay * p comes before that. Otherwise g +=
// weight_decay * p does.
struct AdamOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  bool decoupled = true;
};

// Computes in the parameters' type. f16 and bf16 parameters have a copy in f32, which is updated and then rounded to
// them, so that small updates are not lost. With ShardOptimizer each rank keeps state for its own share of the elements
// only. step() then ends with all ranks receiving all parameters. The result is the same, with 1/n of the state.
//
// For parameters in GPU memory, the state is there too. All functions put their work on the stream of the
// DistributedDataParallel, and the host does not wait.
//
// Use it from one thread. It keeps a handle of the DistributedDataParallel.
//
//   ddp::Optimizer optimizer(data_parallel, ddp::AdamOptions{.learning_rate = 3e-4, .weight_decay = 0.1});
//   …
//   data_parallel.finish();
//   optimizer.step();
class DDP_EXPORT Optimizer {
 public:
  using Options = std::variant<SgdOptions, AdamOptions>;

  // Throws invalid_argument if an option is out of range, as PyTorch's optimizers do. Throws unavailable if the
  // parameters are in GPU memory and the GPU's driver cannot load the library's kernels.
  Optimizer(const DistributedDataParallel& data_parallel, Options options);
  ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Updates the parameters from the gradients. Parameters that no rank used do not change. The call is collective if
  // the optimizer is sharded. Throws invalid_argument if the gradients are not synchronised
  // (DistributedDataParallel::require_synchronized).
  void step(CallSite site = CallSite::current());

  // Waits for the gradient of parameter `index` (DistributedDataParallel::wait) and updates only this parameter. The
  // next forward pass can then begin while other gradients are in transit. Call it before finish(). Throws
  // invalid_argument for a parameter that this step has already updated (a later step() throws too), and with
  // ShardOptimizer. It also throws as wait() does.
  void step(std::size_t index);

  double learning_rate() const;
  void set_learning_rate(double learning_rate);

  // Returns the state that a checkpoint must hold for a bit-identical continuation of the training. It contains this
  // rank's parts of the moments (and f32 copies), named after the parameters, "optimizer.steps" and
  // "optimizer.learning_rate". The last two are in host memory, the others where the parameters are. The addresses do
  // not change.
  std::vector<TensorShard> state();

  // Copies f16 and bf16 parameters to the f32 copies again. Call it after other code changed the parameters, for
  // example after loading a checkpoint without this optimizer's state.
  void refresh_masters();

 private:
  friend class LossScaler;
  // LossScaler sets a factor for the gradients of the next step(), once per step. The step multiplies in the type in
  // which it computes.
  bool gradients_are_scaled() const;
  void scale_next_gradients(double factor);
  const DistributedDataParallel& data_parallel() const;

  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace ddp
