// Optimizer: SGD, Adam and AdamW over the parameters of a DistributedDataParallel; sharded over the ranks if it is.
#pragma once

#include <ddp/buffer.h>
#include <ddp/distributed_data_parallel.h>

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace ddp {

// As torch.optim.SGD: g += weight_decay * p;  b = momentum * b + (1 - dampening) * g, at first b = g;
// p -= learning_rate * (nesterov ? g + momentum * b : b).
struct SgdOptions {
  double learning_rate = 1e-2;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

// As torch.optim.Adam and AdamW (Kingma and Ba, arXiv:1412.6980; Loshchilov and Hutter, arXiv:1711.05101):
//   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   p -= learning_rate * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)
// Weight decay: decoupled, p -= learning_rate * weight_decay * p before that (AdamW); else g += weight_decay * p.
struct AdamOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  bool decoupled = true;
};

// Computes in the parameters' type; f16 and bf16 parameters have a copy in f32 that is updated and rounded to them, so
// that small updates are not lost. With ShardOptimizer each rank keeps state for its own share of
// the elements only, and step() ends with all ranks getting all parameters: the same result, with 1/n of the state.
//
// One thread. The DistributedDataParallel must outlive it.
//
//   ddp::Optimizer optimizer(data_parallel, ddp::AdamOptions{.learning_rate = 3e-4, .weight_decay = 0.1});
//   …
//   data_parallel.finish();
//   optimizer.step();
class DDP_EXPORT Optimizer {
 public:
  using Options = std::variant<SgdOptions, AdamOptions>;

  // Throws invalid_argument if an option is out of range (as PyTorch's do).
  Optimizer(DistributedDataParallel& data_parallel, Options options);
  ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Updates the parameters from the gradients; parameters that no rank used stay as they are. Collective if sharded.
  // Throws invalid_argument if the gradients are not synchronised (DistributedDataParallel::require_synchronized).
  void step(CallSite site = CallSite::current());

  // Waits for the gradient of parameter `index` (DistributedDataParallel::wait) and updates it alone, so that the next
  // forward pass can begin while others are under way. Before finish(). Throws invalid_argument for a parameter that
  // this step has updated already (step() after it, too), and with ShardOptimizer; and as wait().
  void step(std::size_t index);

  double learning_rate() const;
  void set_learning_rate(double learning_rate);

  // What a checkpoint must hold for the training to go on bit by bit: this rank's parts of the moments (and f32
  // copies), named after the parameters, "optimizer.steps" and "optimizer.learning_rate". The memory stays where it is.
  std::vector<TensorShard> state();

  // After parameters were changed by others (a checkpoint that did not hold this optimizer's state): takes the f32
  // copies anew from f16 and bf16 parameters.
  void refresh_masters();

 private:
  friend class LossScaler;
  // In the next step(), in the type in which it computes; once a step.
  bool gradients_are_scaled() const;
  void scale_next_gradients(double factor);
  DistributedDataParallel& data_parallel() const;

  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace ddp
