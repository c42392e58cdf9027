// The shared side of a Work: set once by the group's thread, waited for by anybody.
#pragma once

#include <condition_variable>
#include <exception>
#include <mutex>

namespace ddp {

class WorkState {
 public:
  // `error` null: the operation succeeded.
  void complete(std::exception_ptr error) {
    {
      const std::lock_guard lock(mutex_);
      error_ = std::move(error);
      done_ = true;
    }
    changed_.notify_all();
  }

  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_; });
    if (error_) std::rethrow_exception(error_);
  }

  bool done() const {
    const std::lock_guard lock(mutex_);
    return done_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::exception_ptr error_;
};

}  // namespace ddp
