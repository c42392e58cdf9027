// libtorch's tensors as ours.
#pragma once

#include <ddp/buffer.h>

#include <torch/types.h>

#include <string>

namespace ddp::libtorch {

// A view of the tensor's elements. Throws invalid_argument, naming it, as buffer_of().
Tensor view_of(const std::string& name, const ::torch::Tensor& tensor);

}  // namespace ddp::libtorch
