// These functions run one collective for each tensor of a model.
#pragma once

#include <ddp/process_group.h>

#include <span>

namespace ddp::internal {

// Gives every rank the values of rank `root`; all ranks call it. `stream` is a cudaStream_t for tensors in GPU memory.
void broadcast_all(const ProcessGroup& group, std::span<const Tensor> tensors, int root, Stream stream);

// Gives every rank the mean over all ranks; all ranks call it.
void average_all(const ProcessGroup& group, std::span<const Tensor> tensors, Stream stream);

}  // namespace ddp::internal
