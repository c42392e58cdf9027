// ddp::torch: DistributedDataParallel for modules of libtorch. Target ddplaunch::torch; the only public header that
// shows a third party's types.
#pragma once

#include <ddp/distributed_data_parallel.h>

#include <torch/nn/module.h>

#include <memory>
#include <utility>

namespace ddp::torch {

// Averages the gradients of a module's parameters over all ranks while backward() runs; when backward() returns, every
// .grad() holds the mean. The gradients live in the buckets, so nothing is copied, as long as the optimizer zeroes them
// in place; one that drops them (set to none) costs a copy a step. Parameters are f32 or f64 in host memory; every one
// that requires a gradient must get one in each backward. The group must outlive it. One thread.
class DDP_EXPORT ModuleReducer {
 public:
  // Collective: checks that all ranks have the same parameters, and gives every rank rank 0's parameters and buffers.
  ModuleReducer(ProcessGroup& group, std::shared_ptr<::torch::nn::Module> module, DataParallelOptions options);
  ~ModuleReducer();
  ModuleReducer(const ModuleReducer&) = delete;
  ModuleReducer& operator=(const ModuleReducer&) = delete;

  // The inner object, for verify_parameters() and the number of buckets.
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
//   loss_of(net->forward(batch)).backward();       // gradients are averaged here
//   optimizer.step();
template <typename ModuleHolder>
class DistributedDataParallel {
 public:
  DistributedDataParallel(ProcessGroup& group, ModuleHolder module, DataParallelOptions options = {})
      : module_(std::move(module)), reducer_(std::make_unique<ModuleReducer>(group, module_.ptr(), options)) {}

  auto* operator->() { return module_.get(); }
  ModuleHolder& module() { return module_; }
  ddp::DistributedDataParallel& data_parallel() { return reducer_->data_parallel(); }

 private:
  ModuleHolder module_;
  std::unique_ptr<ModuleReducer> reducer_;
};

}  // namespace ddp::torch
