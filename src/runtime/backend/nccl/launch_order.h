// Gives NCCL's launches on a GPU one order. See docs/development/decisions/0045-gpu-memory-and-launch-order.md.
#pragma once

namespace ddp::internal {

struct LaunchOrder;

// NCCL demands that the launches of independent communicators on one GPU do not run at the same time on several
// threads. A thread has its turn from the call of an operation until that is on its stream. If another thread's turn
// lasts longer than a launch can take, this one begins all the same: a launch that waits for other ranks
// (CUDA_LAUNCH_BLOCKING=1) must not stop the operation that they wait for.
class LaunchTurn {
 public:
  explicit LaunchTurn(int device);
  ~LaunchTurn();
  LaunchTurn(const LaunchTurn&) = delete;
  LaunchTurn& operator=(const LaunchTurn&) = delete;

 private:
  LaunchOrder& order_;
  bool is_own_ = false;
};

}  // namespace ddp::internal
