// ddp::libtorch contains DistributedDataParallel for modules of libtorch, and collectives of tensors. Link the target
// ddplaunch::libtorch. This is the only public header that exposes a third party's types.
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
// which this adapter was built. Otherwise the program would crash without a message. DistributedDataParallel calls it
// first. A program that uses only the collectives can call it itself, with TORCH_VERSION.
DDP_EXPORT void require_libtorch(std::string_view compiled_with);

// Returns the tensor's elements, whose address must not change. Throws invalid_argument unless the tensor is
// contiguous, in host memory or on a CUDA device, and of a supported type (f16, bf16, f32, f64, i8 to i64, u8, bool).
DDP_EXPORT Buffer buffer_of(const ::torch::Tensor& tensor);

// These functions do the same as ProcessGroup's functions of the same names, with tensors. The library keeps the
// tensors until the operation is done, so temporaries may be given. `outputs[i]` belongs to rank i. They also throw as
// buffer_of() does.
//
// Tensors on a GPU must be on this rank's (ProcessGroup::device()). Unless CallOptions::stream is given, the operation
// begins when the work then on libtorch's current stream is done, and Work::wait() makes this stream wait for the
// operation. The host does not wait. libtorch's allocator gets the tensors' memory back when the GPU is done with it.
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

// Averages the gradients of a module's parameters over all ranks while backward() runs. When backward() returns, every
// .grad() holds the mean. The gradients live in the buckets, so nothing is copied after the first step if the optimizer
// zeroes them in place. An optimizer that drops them (sets them to none) costs one copy per step.
//
// Parameters must be f16, bf16, f32 or f64, contiguous, and all in host memory or all on this rank's GPU (nccl,
// ProcessGroup::device()). Every parameter that requires a gradient
// must get one in each backward, except with UnusedParameters::find or static_graph. There, a parameter that no rank
// used keeps the .grad() that it had, or none, alike on all ranks. Parameters may meanwhile get new values and other
// memory (torch::load), but no other type, shape or device. The same holds for buffers.
//
// On a GPU the runtime follows libtorch's current streams, so DataParallelOptions::stream is not used. A gradient is
// complete when the work is done that is on the current stream when autograd has accumulated it. The stream that was
// current when backward() was called waits for the means. The forward pass, backward() and the optimizer may use
// different streams of this GPU if the program orders them as libtorch requires. The functions of data_parallel() use
// the stream that was current in the last call of data_parallel(), forward() or backward(). The host does not wait for
// the GPU in a step, except in the first two, with UnusedParameters::find, and if a buffer is in host memory. Streams
// that capture a CUDA graph are not supported. The gradients' memory is the runtime's, not that of libtorch's
// allocator. It is freed when all streams that used it are done, for which the destructor waits.
//
// After an exception in backward the next forward() abandons the step (DistributedDataParallel::abandon_step) and sets
// all gradients to 0. The module may outlive this object. Use it from one thread.
class DDP_EXPORT ModuleReducer {
 public:
  // This is a collective call. It checks that all ranks have the same parameters (including frozen ones) and buffers,
  // and gives every rank those of rank 0. options.model_buffers and options.frozen are set to the module's.
  ModuleReducer(const ProcessGroup& group, std::shared_ptr<::torch::nn::Module> module, DataParallelOptions options,
                CallSite site = CallSite::current());
  ~ModuleReducer();
  ModuleReducer(const ModuleReducer&) = delete;
  ModuleReducer& operator=(const ModuleReducer&) = delete;

  // This call is collective if the module has buffers and the next step is synchronised. It gives all ranks the buffers
  // of rank 0.
  void before_forward();

  // Returns views of all parameters and buffers by their names in the module, as in a state dict, for checkpoints.
  std::vector<Tensor> state() const;

  // Returns the inner object, for verify_parameters(), clip_gradients() and statistics().
  ddp::DistributedDataParallel& data_parallel();

 private:
  class Implementation;
  std::shared_ptr<Implementation> implementation_;
};

// Wraps a module holder, such as torch::nn::Linear or a type that TORCH_MODULE makes:
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

  // Gives all ranks rank 0's buffers (running means), then calls the module's forward.
  template <typename... Inputs>
  auto forward(Inputs&&... inputs) {
    reducer_->before_forward();
    return module_->forward(std::forward<Inputs>(inputs)...);
  }

  // Return the module itself. Its forward does not change the buffers.
  auto* operator->() { return module_.get(); }
  ModuleHolder& module() { return module_; }

  // See ddp::DistributedDataParallel. Each backward() is a step, which ends with its finish().
  NoSync no_sync() { return reducer_->data_parallel().no_sync(); }
  Accumulation accumulate(std::int64_t micro_steps) { return reducer_->data_parallel().accumulate(micro_steps); }

  std::vector<Tensor> state() const { return reducer_->state(); }
  ddp::DistributedDataParallel& data_parallel() { return reducer_->data_parallel(); }

 private:
  ModuleHolder module_;
  std::unique_ptr<ModuleReducer> reducer_;
};

}  // namespace ddp::libtorch
