// This file places libtorch's gradients in the buckets. A parameter's first gradient is copied into its bucket. From
// then on, .grad is a tensor made with from_blob over that memory, to which AccumulateGrad adds. The tensor is not a
// view, so the optimizer may call detach_(). A post-hook on AccumulateGrad reports when a gradient is complete. When
// backward ends, a callback of the autograd engine waits for the reductions.
//
// On a GPU, the autograd engine runs the hook with the stream current on which it accumulates the gradient, and the
// callback with the stream current on which the program called backward(). The runtime is given the current stream each
// time, so that its reductions are between the two. No thread waits for the GPU.
#include <ddp/buffer.h>
#include <ddp/error.h>
#include <ddp/extension/framework_adapter.h>
#include <ddp/libtorch.h>

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/types.h>

#include <algorithm>
#include <array>
#include <string>
#include <unordered_set>
#include <utility>

#include "libtorch/gpu_streams.h"

namespace ddp::libtorch {
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

// Returns a view of the tensor's elements. If the tensor is unsuitable, throws invalid_argument with its name, like
// buffer_of().
Tensor view_of(const std::string& name, const ::torch::Tensor& tensor) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorKind::invalid_argument, (name.empty() ? "the tensor" : "'" + name + "'") + " " + why);
  };
  if (!tensor.defined()) refuse("is undefined: it has no elements");
  const auto type = std::find_if(kTypes.begin(), kTypes.end(),
                                 [&](const TypeName& entry) { return entry.theirs == tensor.scalar_type(); });
  if (!tensor.device().is_cpu() && !tensor.device().is_cuda()) {
    refuse("is on " + tensor.device().str() + "; this adapter works in host memory and on CUDA devices");
  }
  if (type == kTypes.end()) {
    refuse(std::string("is of type ") + c10::toString(tensor.scalar_type()) + ", which cannot be sent");
  }
  if (!tensor.is_contiguous()) {
    refuse(
        "is not contiguous (a transposed view, or channels_last). Make it contiguous() before, for a module before it "
        "is wrapped");
  }
  return {name,
          {tensor.data_ptr(), static_cast<std::size_t>(tensor.numel()), type->ours,
           tensor.is_cuda() ? DeviceType::cuda : DeviceType::cpu},
          {tensor.sizes().begin(), tensor.sizes().end()}};
}

// libtorch 1.13 returns a shared_ptr, libtorch 2.13 its own kind of pointer.
using Accumulator = decltype(::torch::autograd::impl::grad_accumulator(std::declval<const ::torch::Tensor&>()));

struct NamedTensor {
  std::string name;
  ::torch::Tensor tensor;
};

std::vector<NamedTensor> parameters_of(const ::torch::nn::Module& module, bool are_trained) {
  std::vector<NamedTensor> result;
  for (const auto& item : module.named_parameters()) {
    if (item.value().requires_grad() == are_trained) result.push_back({item.key(), item.value()});
  }
  return result;
}

std::vector<NamedTensor> buffers_of(const ::torch::nn::Module& module) {
  std::vector<NamedTensor> result;
  for (const auto& item : module.named_buffers()) result.push_back({item.key(), item.value()});
  return result;
}

std::vector<Tensor> as_tensors(const std::vector<NamedTensor>& tensors) {
  std::vector<Tensor> result;
  for (const auto& [name, tensor] : tensors) result.push_back(view_of(name, tensor));
  return result;
}

// Returns the GPU of the module, or host memory if the module has nothing on a GPU. Throws if the module is on a GPU
// that is not this rank's. A group that cannot use GPUs refuses the module itself.
c10::Device device_of(const ProcessGroup& group, const ::torch::nn::Module& module) {
  c10::Device result = c10::kCPU;
  const auto check_tensor = [&](const std::string& name, const ::torch::Tensor& tensor) {
    if (!tensor.is_cuda()) return;
    result = tensor.device();
    require_own_gpu(group, "'" + name + "'", result);
  };
  for (const auto& item : module.named_parameters()) check_tensor(item.key(), item.value());
  for (const auto& item : module.named_buffers()) check_tensor(item.key(), item.value());
  return group.device().type == DeviceType::cuda ? result : c10::Device(c10::kCPU);
}

// Adds the frozen parameters and the buffers of the module, which are not trained. On a GPU, the module is brought into
// agreement in the order of the current stream.
DataParallelOptions with_module(DataParallelOptions options, const ::torch::nn::Module& module, c10::Device device) {
  options.model_buffers = as_tensors(buffers_of(module));
  options.frozen = as_tensors(parameters_of(module, false));
  if (device.is_cuda()) options.stream = to_runtime(current_stream(device));
  return options;
}

}  // namespace

Buffer buffer_of(const ::torch::Tensor& tensor) {
  return view_of("", tensor).data;
}

class ModuleReducer::Implementation : public std::enable_shared_from_this<Implementation> {
 public:
  Implementation(const ProcessGroup& group, std::shared_ptr<::torch::nn::Module> module, DataParallelOptions options,
                 CallSite site)
      : module_(std::move(module)),
        device_(device_of(group, *module_)),
        parameters_(parameters_of(*module_, true)),
        core(group, as_tensors(parameters_), with_module(std::move(options), *module_, device_), site),
        adapter_(core),
        memory_(std::make_shared<SharedMemory>(adapter_.gradient_memory(), device_)),
        site_(site) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const ::torch::Tensor& parameter = parameters_[i].tensor;
      known_.insert(parameter.unsafeGetTensorImpl());
      // A module may outlive its reducer and keep the gradients, so the tensor keeps the memory alive.
      gradients_.push_back(at::for_blob(core.gradient(i).data, parameter.sizes())
                               .deleter([memory = memory_](void*) {})
                               .options(parameter.options().requires_grad(false))
                               .target_device(parameter.device())
                               .make_tensor());
    }
    for (const auto& [name, tensor] : parameters_) places_.push_back({name, tensor, tensor.detach()});
    for (const auto& [name, tensor] : parameters_of(*module_, false))
      places_.push_back({name, tensor, tensor.detach()});
    for (const auto& [name, tensor] : buffers_of(*module_)) places_.push_back({name, tensor, tensor.detach()});
    accumulators_.resize(parameters_.size());
    adapter_.forward_broadcasts_buffers();
    adapter_.on_step_end([this] { take_gradients(); });
    adapter_.tell_gradients([this](std::size_t i) { return parameters_[i].tensor.grad().defined(); });
  }

  // The program may keep a handle of `core`.
  ~Implementation() {
    adapter_.on_step_end(nullptr);
    adapter_.tell_gradients(nullptr);
  }

  // The hooks refer to this object weakly, because a module may outlive its reducer. The function is called before each
  // use of the parameters. The program may have given them other memory (torch::load, Module::to), which removes their
  // hooks.
  void follow_module() {
    follow_stream();
    for (Place& place : places_) take_back_memory(place);
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
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
    follow_stream();
    // A step is abandoned after an exception in backward, but not if backward recomputes a forward pass. The program
    // may have zeroed the gradients before, while reductions of the step still wrote into them.
    if (adapter_.step_began() && ::torch::autograd::get_current_graph_task_exec_info() == nullptr) {
      core.abandon_step(site_);
      core.zero_gradients();
    }
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
                                                 " is trained, but was not when the module was wrapped, so its "
                                                 "gradient would not be averaged. Wrap the module again.");
  }

  // The runtime continues on libtorch's current stream of this thread.
  void follow_stream() {
    if (!device_.is_cuda()) return;
    const c10::Stream stream = current_stream(device_);
    memory_->used_on(stream);
    adapter_.use_stream(to_runtime(stream));
  }

  // A tensor of the module, and the memory that it had when the module was wrapped, which the runtime uses.
  struct Place {
    std::string name;
    ::torch::Tensor tensor;
    ::torch::Tensor values;
  };

  // Moves the tensor's values back to the memory that they had when the module was wrapped.
  static void take_back_memory(Place& place) {
    auto& [name, tensor, values] = place;
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
    follow_stream();
    ::torch::Tensor& gradient = parameters_[index].tensor.mutable_grad();
    if (gradient.data_ptr() != gradients_[index].data_ptr()) {
      gradients_[index].copy_(gradient);
      gradient = gradients_[index];
    }
    if (!adapter_.step_began()) {
      ::torch::autograd::Engine::get_default_engine().queue_callback([self = weak_from_this()] {
        if (const auto reducer = self.lock()) reducer->finish();
      });
    }
    core.mark_ready(index, site_);
  }

  void finish() {
    follow_stream();
    core.finish(site_);
  }

  // If any rank used a parameter, all ranks take the mean gradient. If no rank used it, it has a gradient on all ranks
  // or on none.
  void take_gradients() {
    const auto dropped = adapter_.dropped_parameters();
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const bool is_dropped = std::binary_search(dropped.begin(), dropped.end(), i);
      parameters_[i].tensor.mutable_grad() = is_dropped ? ::torch::Tensor() : gradients_[i];
    }
  }

  std::shared_ptr<::torch::nn::Module> module_;
  const c10::Device device_;
  std::vector<NamedTensor> parameters_;
  std::unordered_set<const c10::TensorImpl*> known_;
  std::vector<Place> places_;
  std::vector<::torch::Tensor> gradients_;  // tensors over the memory of the buckets
  std::vector<Accumulator> accumulators_;   // strong references: a parameter refers to its own only weakly

 public:
  ddp::DistributedDataParallel core;

 private:
  FrameworkAdapter adapter_;
  const std::shared_ptr<SharedMemory> memory_;  // the memory of the gradients
  const CallSite site_;  // where the module was wrapped; the engine runs backward(), so its caller is unknown
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
