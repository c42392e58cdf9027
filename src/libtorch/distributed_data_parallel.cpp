// How libtorch's gradients come to lie in our buckets: a parameter's first gradient is copied into its bucket, and
// .grad then is a tensor that is made with from_blob over that place (no view, so the optimizer's detach_() is
// allowed), to which AccumulateGrad adds. A post-hook on AccumulateGrad says when a gradient is complete; after the
// last one a callback of the autograd engine, which runs when backward ends, waits for the reductions.
#include <ddp/error.h>
#include <ddp/extension/framework_adapter.h>
#include <ddp/libtorch.h>

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/types.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "libtorch/tensor_view.h"

namespace ddp::libtorch {
namespace {

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
  options.model_buffers.clear();
  options.frozen = as_tensors(parameters_of(module, false));
  for (const auto& item : module.named_buffers()) options.model_buffers.push_back(view_of(item.key(), item.value()));
  return options;
}

}  // namespace

class ModuleReducer::Implementation : public std::enable_shared_from_this<Implementation> {
 public:
  Implementation(const ProcessGroup& group, std::shared_ptr<::torch::nn::Module> module, DataParallelOptions options,
                 CallSite site)
      : module_(std::move(module)),
        parameters_(parameters_of(*module_, true)),
        core(group, as_tensors(parameters_), with_constants(std::move(options), *module_), site),
        adapter_(core),
        site_(site) {
    const std::shared_ptr<void> memory = adapter_.gradient_memory();
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const ::torch::Tensor& parameter = parameters_[i].tensor;
      values_.push_back(parameter.detach());
      known_.insert(parameter.unsafeGetTensorImpl());
      // A module may outlive its reducer, and keep the gradients.
      gradients_.push_back(::torch::from_blob(
          core.gradient(i).data, parameter.sizes(), [memory](void*) {}, parameter.options().requires_grad(false)));
    }
    accumulators_.resize(parameters_.size());
    adapter_.forward_broadcasts_buffers();
    adapter_.on_step_end([this] { take_gradients(); });
    adapter_.tell_gradients([this](std::size_t i) { return parameters_[i].tensor.grad().defined(); });
  }

  // Hooks refer to us weakly: a module may outlive its reducer. Called before each use of the parameters, since the
  // program may have given them other memory (torch::load, Module::to), with which their hooks go.
  void follow_module() {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      take_back_memory(i);
      auto accumulator = ::torch::autograd::impl::grad_accumulator(parameters_[i].tensor);
      if (!accumulator || accumulator == accumulators_[i]) continue;
      accumulator->add_post_hook(std::make_unique<::torch::autograd::utils::LambdaPostHook>(
          [self = weak_from_this(), i](const std::vector<::torch::Tensor>& outputs,
                                       const std::vector<::torch::Tensor>&) {
            if (const auto reducer = self.lock()) reducer->gradient_complete(i);
            return outputs;
          }));
      accumulators_[i] = std::move(accumulator);
    }
    for (const ::torch::Tensor& tensor : module_->parameters()) {
      if (tensor.requires_grad() && !known_.contains(tensor.unsafeGetTensorImpl())) refuse_late_parameter();
    }
  }

  void before_forward() {
    // After an exception in backward; not where backward computes a forward again.
    if (adapter_.step_began() && ::torch::autograd::get_current_graph_task_exec_info() == nullptr)
      core.abandon_step(site_);
    follow_module();
    if (core.synchronizes() && !adapter_.is_joined()) core.broadcast_buffers(0, site_);
  }

  std::vector<Tensor> state() const {
    std::vector<Tensor> result;
    for (const auto& item : module_->named_parameters()) result.push_back(view_of(item.key(), item.value()));
    for (const auto& item : module_->named_buffers()) result.push_back(view_of(item.key(), item.value()));
    return result;
  }

 private:
  [[noreturn]] void refuse_late_parameter() const {
    std::string names;
    for (const auto& [name, tensor] : parameters_of(*module_, true)) {
      if (!known_.contains(tensor.unsafeGetTensorImpl())) names += (names.empty() ? "'" : ", '") + name + "'";
    }
    throw Error(ErrorKind::invalid_argument, names +
                                                 " is trained, and was not when the module was wrapped: its gradient "
                                                 "would not be averaged. Wrap the module again.");
  }

  // The parameter's values, back where they were when the module was wrapped.
  void take_back_memory(std::size_t index) {
    auto& [name, tensor] = parameters_[index];
    ::torch::Tensor& values = values_[index];
    if (tensor.data_ptr() == values.data_ptr() && tensor.scalar_type() == values.scalar_type()) return;
    if (tensor.sizes() != values.sizes() || tensor.scalar_type() != values.scalar_type() ||
        tensor.device() != values.device()) {
      throw Error(ErrorKind::invalid_argument, "'" + name +
                                                   "' has another type, shape or device than when the module was "
                                                   "wrapped. Wrap it after to() and load().");
    }
    const ::torch::NoGradGuard no_grad;
    values.copy_(tensor);
    tensor.set_data(values);
  }

  void gradient_complete(std::size_t index) {
    ::torch::Tensor& gradient = parameters_[index].tensor.mutable_grad();
    if (gradient.data_ptr() != gradients_[index].data_ptr()) {
      gradients_[index].copy_(gradient);
      gradient = gradients_[index];
    }
    if (!adapter_.step_began()) {
      ::torch::autograd::Engine::get_default_engine().queue_callback([self = weak_from_this()] {
        if (const auto reducer = self.lock()) reducer->core.finish(reducer->site_);
      });
    }
    core.mark_ready(index, site_);
  }

  // What any rank used has the mean, also here. What nobody used has a gradient on all ranks or on none.
  void take_gradients() {
    const auto dropped = adapter_.dropped_parameters();
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const bool is_dropped = std::binary_search(dropped.begin(), dropped.end(), i);
      parameters_[i].tensor.mutable_grad() = is_dropped ? ::torch::Tensor() : gradients_[i];
    }
  }

  std::shared_ptr<::torch::nn::Module> module_;
  std::vector<NamedParameter> parameters_;
  std::unordered_set<const c10::TensorImpl*> known_;
  std::vector<::torch::Tensor> values_;     // the parameters' memory, whatever becomes of theirs
  std::vector<::torch::Tensor> gradients_;  // over the buckets
  std::vector<Accumulator> accumulators_;   // a parameter holds its own only weakly

 public:
  ddp::DistributedDataParallel core;

 private:
  FrameworkAdapter adapter_;
  const CallSite site_;  // where the module was wrapped: backward() is the engine's, and its caller unknown
};

ModuleReducer::ModuleReducer(const ProcessGroup& group, std::shared_ptr<::torch::nn::Module> module,
                             DataParallelOptions options, CallSite site)
    : implementation_(std::make_shared<Implementation>(group, std::move(module), std::move(options), site)) {
  implementation_->follow_module();
}

ModuleReducer::~ModuleReducer() = default;

void ModuleReducer::before_forward() {
  implementation_->before_forward();
}

std::vector<Tensor> ModuleReducer::state() const {
  implementation_->follow_module();
  return implementation_->state();
}

ddp::DistributedDataParallel& ModuleReducer::data_parallel() {
  implementation_->follow_module();
  return implementation_->core;
}

}  // namespace ddp::libtorch
