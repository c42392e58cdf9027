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

#include <algorithm>
#include <array>
#include <utility>

namespace ddp::torch {
namespace {

struct TypeName {
  ::torch::ScalarType theirs;
  DataType ours;
};
constexpr std::array kTypes = {TypeName{::torch::kHalf, DataType::f16},  TypeName{::torch::kBFloat16, DataType::bf16},
                               TypeName{::torch::kFloat, DataType::f32}, TypeName{::torch::kDouble, DataType::f64},
                               TypeName{::torch::kChar, DataType::i8},   TypeName{::torch::kShort, DataType::i16},
                               TypeName{::torch::kInt, DataType::i32},   TypeName{::torch::kLong, DataType::i64},
                               TypeName{::torch::kByte, DataType::u8},   TypeName{::torch::kBool, DataType::boolean}};

Tensor view_of(const std::string& name, const ::torch::Tensor& tensor) {
  const auto type = std::find_if(kTypes.begin(), kTypes.end(),
                                 [&](const TypeName& entry) { return entry.theirs == tensor.scalar_type(); });
  if (!tensor.is_contiguous() || !tensor.device().is_cpu() || type == kTypes.end()) {
    throw Error(
        ErrorKind::invalid_argument,
        "'" + name + "' is not a contiguous tensor of real numbers in host memory; this adapter takes no other");
  }
  return {name,
          {tensor.data_ptr(), static_cast<std::size_t>(tensor.numel()), type->ours},
          {tensor.sizes().begin(), tensor.sizes().end()}};
}

// A shared_ptr in libtorch 1.13, in 2.13 a pointer of its own kind.
using Accumulator = decltype(::torch::autograd::impl::grad_accumulator(std::declval<const ::torch::Tensor&>()));

struct NamedParameter {
  std::string name;
  ::torch::Tensor tensor;
};

std::vector<NamedParameter> parameters_of(const ::torch::nn::Module& module, bool are_trained) {
  std::vector<NamedParameter> result;
  for (const auto& item : module.named_parameters()) {
    if (item.value().requires_grad() == are_trained) result.push_back({item.key(), item.value()});
  }
  return result;
}

std::vector<Tensor> as_tensors(const std::vector<NamedParameter>& parameters) {
  std::vector<Tensor> result;
  for (const auto& [name, tensor] : parameters) result.push_back(view_of(name, tensor));
  return result;
}

// What is not trained.
DataParallelOptions with_constants(DataParallelOptions options, const ::torch::nn::Module& module) {
  options.buffers.clear();
  options.frozen = as_tensors(parameters_of(module, false));
  for (const auto& item : module.named_buffers()) options.buffers.push_back(view_of(item.key(), item.value()));
  return options;
}

}  // namespace

class ModuleReducer::Implementation : public std::enable_shared_from_this<Implementation> {
 public:
  Implementation(ProcessGroup& group, std::shared_ptr<::torch::nn::Module> module, DataParallelOptions options,
                 CallSite site)
      : module_(std::move(module)),
        parameters_(parameters_of(*module_, true)),
        core(group, as_tensors(parameters_), with_constants(std::move(options), *module_), site),
        site_(site) {
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

  void broadcast_buffers() {
    if (core.synchronizes()) core.broadcast_buffers(0, site_);
  }

  std::vector<Tensor> state() const {
    std::vector<Tensor> result;
    for (const auto& item : module_->named_parameters()) result.push_back(view_of(item.key(), item.value()));
    for (const auto& item : module_->named_buffers()) result.push_back(view_of(item.key(), item.value()));
    return result;
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
    core.mark_ready(index, site_);
  }

  void finish() {
    complete_ = 0;
    core.finish(site_);
    // An optimizer leaves alone what has no gradient.
    for (const std::size_t index : core.unused_parameters()) parameters_[index].tensor.mutable_grad().reset();
  }

  std::shared_ptr<::torch::nn::Module> module_;
  std::vector<NamedParameter> parameters_;
  std::vector<::torch::Tensor> gradients_;  // over the buckets
  std::vector<Accumulator> accumulators_;   // a parameter holds its own only weakly
  std::size_t complete_ = 0;

 public:
  ddp::DistributedDataParallel core;

 private:
  const CallSite site_;  // where the module was wrapped: backward() is the engine's, and its caller unknown
};

ModuleReducer::ModuleReducer(ProcessGroup& group, std::shared_ptr<::torch::nn::Module> module,
                             DataParallelOptions options, CallSite site)
    : implementation_(std::make_shared<Implementation>(group, std::move(module), std::move(options), site)) {
  implementation_->install_hooks();
}

ModuleReducer::~ModuleReducer() = default;

void ModuleReducer::before_forward() {
  implementation_->broadcast_buffers();
}

std::vector<Tensor> ModuleReducer::state() const {
  return implementation_->state();
}

ddp::DistributedDataParallel& ModuleReducer::data_parallel() {
  return implementation_->core;
}

}  // namespace ddp::torch
