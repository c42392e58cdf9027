// ddp::torch: DistributedDataParallel for modules of libtorch. Target ddplaunch::torch; the only public header that
// shows a third party's types.
#pragma once

#include <ddp/distributed_data_parallel.h>
#include <ddp/gradient_accumulation.h>

#include <torch/nn/module.h>

#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace ddp::torch {

// Averages the gradients of a module's parameters over all ranks while backward() runs; when backward() returns, every
// .grad() holds the mean. The gradients live in the buckets, so nothing is copied after the first step, as long as the
// optimizer zeroes them in place; one that drops them (set to none) costs a copy a step. Parameters are f16, bf16, f32
// or f64, contiguous, in host memory; every one that requires a gradient must get one in each backward, but with
// UnusedParameters::find or static_graph: one that no rank used keeps the .grad() that it had, or none, alike on all
// ranks. Parameters may get new values and other memory meanwhile (torch::load), but no other type or shape. After an
// exception in backward the next forward() gives the step up (DistributedDataParallel::abandon_step). The module may
// outlive it; the group must. One thread.
class DDP_EXPORT ModuleReducer {
 public:
  // Collective: checks that all ranks have the same parameters (frozen ones, too) and buffers, and gives every rank
  // rank 0's. options.model_buffers and options.frozen are set to the module's.
  ModuleReducer(const ProcessGroup& group, std::shared_ptr<::torch::nn::Module> module, DataParallelOptions options,
                CallSite site = CallSite::current());
  ~ModuleReducer();
  ModuleReducer(const ModuleReducer&) = delete;
  ModuleReducer& operator=(const ModuleReducer&) = delete;

  // Collective if the module has buffers and the next step is synchronised: gives all ranks rank 0's buffers.
  void before_forward();

  // All parameters and buffers by their names in the module, as in a state dict: what a checkpoint holds. Views.
  std::vector<Tensor> state() const;

  // The inner object: verify_parameters(), clip_gradients(), statistics().
  ddp::DistributedDataParallel& data_parallel();

 private:
  class Implementation;
  std::shared_ptr<Implementation> implementation_;
};

// Wraps a module holder (what TORCH_MODULE makes, or torch::nn::Linear and friends):
//
//   ddp::torch::DistributedDataParallel net(world, Net());
//   torch::optim::SGD optimizer(net->parameters(), 0.1);
//   …
//   optimizer.zero_grad();
//   loss_of(net.forward(batch)).backward();       // gradients are averaged here
//   optimizer.step();
template <typename ModuleHolder>
class DistributedDataParallel {
 public:
  DistributedDataParallel(const ProcessGroup& group, ModuleHolder module, DataParallelOptions options = {},
                          CallSite site = CallSite::current())
      : module_(std::move(module)),
        reducer_(std::make_unique<ModuleReducer>(group, module_.ptr(), std::move(options), site)) {}

  // The module's forward, after its buffers (running means) have become rank 0's.
  template <typename... Inputs>
  auto forward(Inputs&&... inputs) {
    reducer_->before_forward();
    return module_->forward(std::forward<Inputs>(inputs)...);
  }

  // The module itself: its forward leaves the buffers alone.
  auto* operator->() { return module_.get(); }
  ModuleHolder& module() { return module_; }

  // See ddp::DistributedDataParallel; each backward() is a step, and ends with its finish().
  NoSync no_sync() { return reducer_->data_parallel().no_sync(); }
  Accumulation accumulate(std::int64_t micro_steps) { return reducer_->data_parallel().accumulate(micro_steps); }

  std::vector<Tensor> state() const { return reducer_->state(); }
  ddp::DistributedDataParallel& data_parallel() { return reducer_->data_parallel(); }

 private:
  ModuleHolder module_;
  std::unique_ptr<ModuleReducer> reducer_;
};

}  // namespace ddp::torch
