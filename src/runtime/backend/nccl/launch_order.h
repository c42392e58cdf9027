// Gives NCCL's launches on a GPU one order. See docs/development/decisions/0045-gpu-memory-and-launch-order.md.
#pragma once

#include <mutex>

namespace ddp::internal {

// NCCL demands that the launches of independent communicators on one GPU do not run at the same time on several
// threads. Returns the GPU's lock, which a thread holds from the call of an operation until it is on its stream. If
// another thread holds the lock for longer than a launch can take, the lock is not taken: a launch that waits for other
// ranks (CUDA_LAUNCH_BLOCKING=1) must not stop the operation that they wait for.
std::unique_lock<std::timed_mutex> launch_order(int device);

}  // namespace ddp::internal
