// A collective of each of a model's tensors.
#pragma once

#include <ddp/process_group.h>

#include <span>

namespace ddp::internal {

// Collective: every rank gets rank `root`'s values. `stream`: of tensors in GPU memory, a cudaStream_t.
void broadcast_all(const ProcessGroup& group, std::span<const Tensor> tensors, int root, Stream stream);

// Collective: every rank gets the mean over all ranks.
void average_all(const ProcessGroup& group, std::span<const Tensor> tensors, Stream stream);

}  // namespace ddp::internal
