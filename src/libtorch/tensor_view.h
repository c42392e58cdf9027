// Converts libtorch's tensors to the runtime's tensors.
#pragma once

#include <ddp/buffer.h>

#include <torch/types.h>

#include <string>

namespace ddp::libtorch {

// Returns a view of the tensor's elements. If the tensor is unsuitable, throws invalid_argument with its name, like
// buffer_of().
Tensor view_of(const std::string& name, const ::torch::Tensor& tensor);

}  // namespace ddp::libtorch
