// Whether all ranks are about to train the same model in the same way, and still have the same one.
#pragma once

#include <ddp/distributed_data_parallel.h>

#include <cstdint>
#include <span>

namespace ddp::internal {

// Collective. Throws invalid_argument on a rank whose own parameters or options are wrong, and mismatch on all ranks,
// with the first difference, if they differ. A rank with a fault of its own still takes part, so that the others do not
// wait for it.
void check_model(const ProcessGroup& group, std::span<const Tensor> parameters, const DataParallelOptions& options);

// Collective. The hash of this rank's parameter bytes; throws mismatch, naming the ranks that differ from rank 0.
// `stream`: of what is in GPU memory.
std::uint64_t verify_equal(const ProcessGroup& group, std::span<const Tensor> parameters, Stream stream);

}  // namespace ddp::internal
