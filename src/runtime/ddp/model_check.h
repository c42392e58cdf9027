// Whether all ranks are about to train the same model in the same way.
#pragma once

#include <ddp/distributed_data_parallel.h>

#include <span>

namespace ddp {

// Collective. Throws invalid_argument on a rank whose own parameters or options are wrong, and mismatch on all ranks,
// with the first difference, if they differ. A rank with a fault of its own still takes part, so that the others do not
// wait for it.
void check_model(ProcessGroup& group, std::span<const Tensor> parameters, const DataParallelOptions& options);

}  // namespace ddp
