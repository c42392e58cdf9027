// How libtorch's gradients come to lie in our buckets: each parameter gets a .grad that is made with from_blob over its
// place in a bucket (no view, so the optimizer's detach_() is allowed), and AccumulateGrad then adds in place. A
// post-hook on AccumulateGrad says when a gradient is complete; after the last one a callback of the autograd engine,
// which runs when backward ends, waits for the reductions.
#include <ddp/error.h>
#include <ddp/torch.h>

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/types.h>

#include <cstring>

namespace ddp::torch {
namespace {

Buffer buffer_of(const std::string& name, const ::torch::Tensor& tensor) {
  const auto type = tensor.scalar_type();
  const bool known = type == ::torch::kFloat || type == ::torch::kDouble || type == ::torch::kLong;
  if (!tensor.is_contiguous() || !tensor.device().is_cpu() || !known) {
    throw Error(
        ErrorKind::invalid_argument,
        "'" + name + "' is not a contiguous f32, f64 or i64 tensor in host memory; this adapter takes no other");
  }
  const DataType own = type == ::torch::kFloat    ? DataType::f32
                       : type == ::torch::kDouble ? DataType::f64
                                                  : DataType::i64;
  return {tensor.data_ptr(), static_cast<std::size_t>(tensor.numel()), own};
}

struct NamedParameter {
  std::string name;
  ::torch::Tensor tensor;
};

std::vector<NamedParameter> trainable(const ::torch::nn::Module& module) {
  std::vector<NamedParameter> result;
  for (const auto& item : module.named_parameters()) {
    if (item.value().requires_grad()) result.push_back({item.key(), item.value()});
  }
  return result;
}

std::vector<Tensor> as_tensors(const std::vector<NamedParameter>& parameters) {
  std::vector<Tensor> result;
  for (const auto& [name, tensor] : parameters) {
    result.push_back({name, buffer_of(name, tensor), {tensor.sizes().begin(), tensor.sizes().end()}});
  }
  return result;
}

}  // namespace

class ModuleReducer::Implementation : public std::enable_shared_from_this<Implementation> {
 public:
  Implementation(ProcessGroup& group, std::shared_ptr<::torch::nn::Module> module, DataParallelOptions options)
      : module_(std::move(module)), parameters_(trainable(*module_)), core(group, as_tensors(parameters_), options) {
    for (const auto& item : module_->named_buffers()) group.broadcast(buffer_of(item.key(), item.value()), 0).wait();
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      ::torch::Tensor& parameter = parameters_[i].tensor;
      gradients_.push_back(
          ::torch::from_blob(core.gradient(i).data, parameter.sizes(), parameter.options().requires_grad(false)));
      parameter.mutable_grad() = gradients_[i];
    }
  }

  // After construction, since the hooks refer to us weakly: a module may outlive its reducer.
  void install_hooks() {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      auto accumulator = ::torch::autograd::impl::grad_accumulator(parameters_[i].tensor);
      accumulator->add_post_hook(std::make_unique<::torch::autograd::utils::LambdaPostHook>(
          [self = weak_from_this(), i](const std::vector<::torch::Tensor>& outputs,
                                       const std::vector<::torch::Tensor>&) {
            if (const auto reducer = self.lock()) reducer->gradient_complete(i);
            return outputs;
          }));
      accumulators_.push_back(std::move(accumulator));
    }
  }

 private:
  void gradient_complete(std::size_t index) {
    ::torch::Tensor& gradient = parameters_[index].tensor.mutable_grad();
    if (gradient.data_ptr() != gradients_[index].data_ptr()) {
      // The optimizer dropped the gradient and autograd made another: its values move into the bucket.
      gradients_[index].copy_(gradient);
      gradient = gradients_[index];
    }
    if (complete_++ == 0) {
      ::torch::autograd::Engine::get_default_engine().queue_callback([self = weak_from_this()] {
        if (const auto reducer = self.lock()) reducer->finish();
      });
    }
    core.mark_ready(index);
  }

  void finish() {
    complete_ = 0;
    core.finish();
  }

  std::shared_ptr<::torch::nn::Module> module_;
  std::vector<NamedParameter> parameters_;
  std::vector<::torch::Tensor> gradients_;                              // over the buckets
  std::vector<std::shared_ptr<::torch::autograd::Node>> accumulators_;  // a parameter holds its own only weakly
  std::size_t complete_ = 0;

 public:
  ddp::DistributedDataParallel core;
};

ModuleReducer::ModuleReducer(ProcessGroup& group, std::shared_ptr<::torch::nn::Module> module,
                             DataParallelOptions options)
    : implementation_(std::make_shared<Implementation>(group, std::move(module), options)) {
  implementation_->install_hooks();
}

ModuleReducer::~ModuleReducer() = default;

ddp::DistributedDataParallel& ModuleReducer::data_parallel() {
  return implementation_->core;
}

}  // namespace ddp::torch
