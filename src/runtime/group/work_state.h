// The shared side of a Work. Completed once by whoever ran the operation; guarded by the mutex of its queue.
#pragma once

#include <ddp/error.h>

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

namespace ddp {

class QueueState;

class WorkState {
 public:
  explicit WorkState(std::shared_ptr<QueueState> queue) : queue_(std::move(queue)) {}

  bool done() const { return done_.load(std::memory_order_acquire); }
  // Only when done(): throws the failure, if there was one.
  void check() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  friend class Work;
  friend class QueueState;

  const std::shared_ptr<QueueState> queue_;
  std::atomic<bool> done_ = false;
  std::exception_ptr failure_;
  std::vector<std::function<void(const Error*)>> continuations_;
};

}  // namespace ddp
