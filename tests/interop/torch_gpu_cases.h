// Provides what the tests of libtorch on GPUs share (torch_gpu_module.cpp, torch_gpu_tensors.cpp).
#pragma once

#include <ddp/ddp.h>

#include <torch/torch.h>

#include "interop/torch_cases.h"

namespace ddp::test {

inline torch::Device own_gpu(const ddp::ProcessGroup& world) {
  return {torch::kCUDA, static_cast<c10::DeviceIndex>(world.device().index)};
}

inline bool has(const torch::Tensor& tensor, double value) {
  return (tensor.cpu() - value).abs().max().item<double>() < 1e-6;
}

void tensors_in_order(ddp::ProcessGroup& world);
void temporary_tensors(ddp::ProcessGroup& world);

}  // namespace ddp::test
