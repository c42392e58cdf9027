// The shared side of a Work: the operation, and how far it is. Guarded by the mutex of its queue.
#pragma once

#include <ddp/error.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/call/call.h"

namespace ddp::internal {

class QueueState;

class WorkState {
 public:
  WorkState(std::shared_ptr<QueueState> queue, Call call) : queue_(std::move(queue)), call_(std::move(call)) {}

  bool done() const { return done_.load(std::memory_order_acquire); }
  // Only when done(): throws the failure, if there was one.
  void check() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  friend class ddp::Work;
  friend class QueueState;

  const std::shared_ptr<QueueState> queue_;
  const Call call_;
  std::uint64_t batch_ = 0;  // operations that were held together have the same one
  bool begun_ = false;
  std::atomic<bool> done_ = false;
  std::exception_ptr failure_;  // of its beginning, or when it is done
  std::vector<std::function<void(const Error*)>> continuations_;
};

}  // namespace ddp::internal
