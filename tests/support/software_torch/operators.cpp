// Runs libtorch's operators for CPUs on the streams of the GPU in software.
#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "support/software_torch/device.h"

namespace software_torch {
namespace {

using Stack = torch::jit::Stack;

// Returns a tensor in host memory with the same elements. As a kernel does, it does not keep the memory.
at::Tensor host_view(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cuda()) return tensor;
  const auto item = static_cast<std::int64_t>(tensor.itemsize());
  auto* first = static_cast<char*>(tensor.data_ptr()) - tensor.storage_offset() * item;
  const auto options = tensor.options().device(at::kCPU).requires_grad(false);
  const std::int64_t count = static_cast<std::int64_t>(tensor.storage().nbytes()) / item;
  return at::for_blob(first, {count})
      .options(options)
      .make_tensor()
      .as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset());
}

// Returns a tensor in host memory with the same shape. Its elements are 0.
at::Tensor host_shape(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cuda()) return tensor;
  const auto options = tensor.options().device(at::kCPU).requires_grad(false);
  return at::empty_strided(tensor.sizes(), tensor.strides(), options).zero_();
}

template <typename Function>
c10::IValue with_tensors(const c10::IValue& value, const Function& function) {
  if (value.isTensor()) return function(value.toTensor());
  if (value.isDevice()) return c10::Device(c10::kCPU);
  if (!value.isList()) return value;
  const c10::List<c10::IValue> values = value.toList();
  c10::impl::GenericList result(values.elementType());
  for (const c10::IValue& each : values) result.push_back(with_tensors(each, function));
  return result;
}

template <typename Function>
Stack with_tensors(const Stack& values, const Function& function) {
  Stack result;
  for (const c10::IValue& value : values) result.push_back(with_tensors(value, function));
  return result;
}

// Returns the first tensor on the device among the values.
at::Tensor device_tensor(const Stack& values) {
  at::Tensor found;
  with_tensors(values, [&](const at::Tensor& tensor) {
    if (!found.defined() && tensor.defined() && tensor.is_cuda()) found = tensor;
    return tensor;
  });
  TORCH_CHECK(found.defined(), "no tensor is on a GPU");
  return found;
}

at::Tensor allocate(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type, at::Device device) {
  const c10::DeviceGuard guard(device);
  std::int64_t count = 1;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    count = sizes[i] == 0 ? 0 : count + (count == 0 ? 0 : (sizes[i] - 1) * strides[i]);
    if (count == 0) break;
  }
  auto data =
      std::make_shared<c10::DataPtr>(internal::allocate(static_cast<std::size_t>(count) * at::elementSize(type)));
  return at::for_blob(data->get(), sizes)
      .strides(strides)
      .deleter([data](void*) {})
      .options(at::TensorOptions(device).dtype(type))
      .target_device(device)
      .make_tensor();
}

// Returns a tensor with the elements of `base` that `view` has of its view in host memory.
at::Tensor device_view(const at::Tensor& base, const at::Tensor& view) {
  auto result = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(base.storage()),
                                                         base.key_set(), view.dtype());
  result.unsafeGetTensorImpl()->set_sizes_and_strides(view.sizes(), view.strides());
  result.unsafeGetTensorImpl()->set_storage_offset(view.storage_offset());
  return result;
}

void call(const c10::OperatorHandle& operation, Stack& stack) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  operation.callBoxed(&stack);
}

// Finds the argument of which a result is an alias.
std::size_t argument_of(const c10::FunctionSchema& schema, const c10::AliasInfo& alias) {
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::AliasInfo* other = schema.arguments()[i].alias_info();
    if (other != nullptr && other->beforeSets() == alias.beforeSets()) return i;
  }
  TORCH_CHECK(false, schema, " returns what is none of its arguments");
}

// Puts an operator that writes into its arguments on the stream.
Stack change_arguments(const c10::OperatorHandle& operation, const Stack& arguments, const c10::Stream& stream) {
  put(stream, [operation, host = with_tensors(arguments, host_view)]() mutable { call(operation, host); });
  Stack results;
  for (const c10::Argument& result : operation.schema().returns()) {
    TORCH_CHECK(result.alias_info() != nullptr, operation.schema(), " is not supported");
    results.push_back(arguments[argument_of(operation.schema(), *result.alias_info())]);
  }
  return results;
}

// Puts an operator with new tensors as results on the stream. A run on tensors of the same shapes gives the results'
// shapes at once.
Stack make_results(const c10::OperatorHandle& operation, const Stack& arguments, const c10::Stream& stream) {
  Stack shapes = with_tensors(arguments, host_shape);
  call(operation, shapes);
  const Stack results = with_tensors(shapes, [&](const at::Tensor& shape) {
    if (!shape.defined()) return at::Tensor();
    return allocate(shape.sizes(), shape.strides(), shape.scalar_type(), stream.device());
  });
  put(stream,
      [operation, host = with_tensors(arguments, host_view), outputs = with_tensors(results, host_view)]() mutable {
        call(operation, host);
        const at::AutoDispatchBelowADInplaceOrView guard;
        for (std::size_t i = 0; i < outputs.size(); ++i) {
          if (outputs[i].isTensor() && outputs[i].toTensor().defined()) outputs[i].toTensor().copy_(host[i].toTensor());
        }
      });
  return results;
}

Stack run(const c10::OperatorHandle& operation, const Stack& arguments) {
  const c10::FunctionSchema& schema = operation.schema();
  const at::Tensor base = device_tensor(arguments);
  const c10::Stream stream = current_stream(base.device().index());
  const auto writes = [](const c10::Argument& each) {
    return each.alias_info() != nullptr && each.alias_info()->isWrite();
  };
  const auto is_view = [](const c10::Argument& each) { return each.alias_info() != nullptr; };
  if (std::ranges::any_of(schema.arguments(), writes)) return change_arguments(operation, arguments, stream);
  const bool returns_views = std::ranges::any_of(schema.returns(), is_view);
  const bool returns_numbers = std::ranges::any_of(
      schema.returns(), [](const c10::Argument& each) { return !each.type()->isSubtypeOf(*c10::TensorType::get()); });
  if (!returns_views && !returns_numbers) return make_results(operation, arguments, stream);
  if (returns_numbers) synchronize(stream);
  Stack results = with_tensors(arguments, host_view);
  call(operation, results);
  if (returns_numbers) return results;
  return with_tensors(results, [&](const at::Tensor& view) { return device_view(base, view); });
}

void fallback(const c10::OperatorHandle& operation, Stack* stack) {
  const auto first = stack->end() - static_cast<std::ptrdiff_t>(operation.schema().arguments().size());
  const Stack arguments(first, stack->end());
  stack->erase(first, stack->end());
  for (c10::IValue& result : run(operation, arguments)) stack->push_back(std::move(result));
}

at::Device device_or_current(const c10::optional<at::Device>& device) {
  const at::Device current = c10::impl::getDeviceGuardImpl(c10::kCUDA)->getDevice();
  return device && device->has_index() ? *device : current;
}

at::Tensor empty(at::IntArrayRef sizes, c10::optional<at::ScalarType> type, c10::optional<at::Layout>,
                 c10::optional<at::Device> device, c10::optional<bool>, c10::optional<at::MemoryFormat> format) {
  const at::Tensor shape = at::empty(sizes, at::TensorOptions().dtype(type), format);
  return allocate(sizes, shape.strides(), shape.scalar_type(), device_or_current(device));
}

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, c10::optional<at::ScalarType> type,
                         c10::optional<at::Layout>, c10::optional<at::Device> device, c10::optional<bool>) {
  return allocate(sizes, strides, type.value_or(at::ScalarType::Float), device_or_current(device));
}

// Like CUDA, it blocks only if one of the two is in host memory.
at::Tensor& copy(at::Tensor& to, const at::Tensor& from, bool) {
  const c10::Stream stream = current_stream((to.is_cuda() ? to : from).device().index());
  const auto run = [to = host_view(to), from = host_view(from)]() mutable {
    const at::AutoDispatchBelowADInplaceOrView guard;
    to.copy_(from);
  };
  put(stream, run);
  if (!to.is_cuda() || !from.is_cuda()) synchronize(stream);
  return to;
}

}  // namespace

TORCH_LIBRARY_IMPL(_, CUDA, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("empty.memory_format", &empty);
  library.impl("empty_strided", &empty_strided);
  library.impl("copy_", &copy);
}

}  // namespace software_torch
