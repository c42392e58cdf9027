// ddp::libtorch: DistributedDataParallel for modules of libtorch, and collectives of tensors. Target
// ddplaunch::libtorch; the only public header that shows a third party's types.
#pragma once

#include <ddp/distributed_data_parallel.h>
#include <ddp/gradient_accumulation.h>

#include <torch/nn/module.h>
#include <torch/version.h>

#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace ddp::libtorch {

// Throws `unavailable`, naming the versions, unless the program was compiled with, and runs with, the libtorch for
// which this adapter was built: with another one it would crash without a word. DistributedDataParallel asks it first;
// a program that uses the collectives alone may ask it itself, with TORCH_VERSION.
DDP_EXPORT void require_libtorch(std::string_view compiled_with);

// The tensor's elements, which must stay where they are. Throws invalid_argument unless it is contiguous, in host
// memory and of a type that can be sent (f16, bf16, f32, f64, i8 to i64, u8, bool).
DDP_EXPORT Buffer buffer_of(const ::torch::Tensor& tensor);

// What ProcessGroup's functions of the same names do, with tensors. The tensors are kept until the operation is done,
// so temporaries may be given. `outputs[i]` belongs to rank i. Throw as buffer_of(), too.
//
//   ddp::libtorch::all_reduce(world, loss, ddp::ReduceOp::average).wait();
DDP_EXPORT Work all_reduce(const ProcessGroup& group, const ::torch::Tensor& tensor, ReduceOp op = ReduceOp::sum,
                           const CallOptions& options = {}, CallSite site = CallSite::current());
DDP_EXPORT Work reduce(const ProcessGroup& group, const ::torch::Tensor& tensor, int root, ReduceOp op = ReduceOp::sum,
                       const CallOptions& options = {}, CallSite site = CallSite::current());
DDP_EXPORT Work broadcast(const ProcessGroup& group, const ::torch::Tensor& tensor, int root,
                          const CallOptions& options = {}, CallSite site = CallSite::current());
DDP_EXPORT Work all_gather(const ProcessGroup& group, const ::torch::Tensor& output, const ::torch::Tensor& input,
                           const CallOptions& options = {}, CallSite site = CallSite::current());
DDP_EXPORT Work all_gather(const ProcessGroup& group, std::span<const ::torch::Tensor> outputs,
                           const ::torch::Tensor& input, const CallOptions& options = {},
                           CallSite site = CallSite::current());
DDP_EXPORT Work gather(const ProcessGroup& group, const ::torch::Tensor& output, const ::torch::Tensor& input, int root,
                       const CallOptions& options = {}, CallSite site = CallSite::current());
DDP_EXPORT Work scatter(const ProcessGroup& group, const ::torch::Tensor& output, const ::torch::Tensor& input,
                        int root, const CallOptions& options = {}, CallSite site = CallSite::current());
DDP_EXPORT Work reduce_scatter(const ProcessGroup& group, const ::torch::Tensor& output, const ::torch::Tensor& input,
                               ReduceOp op = ReduceOp::sum, const CallOptions& options = {},
                               CallSite site = CallSite::current());
DDP_EXPORT Work all_to_all(const ProcessGroup& group, const ::torch::Tensor& output, const ::torch::Tensor& input,
                           const CallOptions& options = {}, CallSite site = CallSite::current());
DDP_EXPORT Work send(const ProcessGroup& group, const ::torch::Tensor& tensor, int to, const CallOptions& options = {},
                     CallSite site = CallSite::current());
DDP_EXPORT Work recv(const ProcessGroup& group, const ::torch::Tensor& tensor, int from,
                     const CallOptions& options = {}, CallSite site = CallSite::current());

// Averages the gradients of a module's parameters over all ranks while backward() runs; when backward() returns, every
// .grad() holds the mean. The gradients live in the buckets, so nothing is copied after the first step, as long as the
// optimizer zeroes them in place; one that drops them (set to none) costs a copy a step. Parameters are f16, bf16, f32
// or f64, contiguous, in host memory; every one that requires a gradient must get one in each backward, but with
// UnusedParameters::find or static_graph: one that no rank used keeps the .grad() that it had, or none, alike on all
// ranks. Parameters may get new values and other memory meanwhile (torch::load), but no other type or shape. After an
// exception in backward the next forward() gives the step up (DistributedDataParallel::abandon_step). The module may
// outlive it. One thread.
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
//   ddp::libtorch::DistributedDataParallel net(world, Net());
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
      : module_(std::move(module)) {
    require_libtorch(TORCH_VERSION);
    reducer_ = std::make_unique<ModuleReducer>(group, module_.ptr(), std::move(options), site);
  }

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

}  // namespace ddp::libtorch
