// These functions check whether all ranks train the same model in the same way, and give all ranks equal models.
#pragma once

#include <ddp/distributed_data_parallel.h>
#include <ddp/process_group.h>

#include <cstdint>
#include <span>

namespace ddp::internal {

// All ranks call it. Throws invalid_argument on a rank whose own parameters or options are wrong. If the ranks differ,
// throws mismatch on all ranks, with the first difference. A rank with a fault still takes part, so that the others do
// not wait for it.
void check_model(const ProcessGroup& group, std::span<const Tensor> parameters, const DataParallelOptions& options);

// Returns the hash of this rank's parameter bytes; all ranks call it. Throws mismatch, naming the ranks that differ
// from rank 0. `stream` is the stream of tensors in GPU memory.
std::uint64_t verify_equal(const ProcessGroup& group, std::span<const Tensor> parameters, Stream stream);

// Gives every rank the values of rank `root`; all ranks call it. `stream` is a cudaStream_t for tensors in GPU memory.
void broadcast_all(const ProcessGroup& group, std::span<const Tensor> tensors, int root, Stream stream);

// Gives every rank the mean over all ranks; all ranks call it.
void average_all(const ProcessGroup& group, std::span<const Tensor> tensors, Stream stream);

}  // namespace ddp::internal
