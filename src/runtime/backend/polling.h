// Polling: a wait with a deadline for things that can only be looked at, as NCCL's and MPI's operations.
#pragma once

#include <chrono>
#include <thread>

namespace ddp::internal {

// First it looks as often as it can, giving the processor away in between, because a small collective is over within
// microseconds; after `spin` it sleeps between two looks, because a rank that waits long must not heat a core.
//
//   Polling polling(timeout, std::chrono::milliseconds(2));
//   while (!done()) {
//     if (!polling.pause()) throw ...;
//   }
class Polling {
 public:
  Polling(std::chrono::milliseconds timeout, std::chrono::milliseconds spin)
      : spin_end_(Clock::now() + spin), deadline_(Clock::now() + timeout) {}

  // False, at once, when the time-out has passed.
  bool pause() const {
    const auto now = Clock::now();
    if (now >= deadline_) return false;
    if (now < spin_end_) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kSleep);
    }
    return true;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::microseconds kSleep{50};

  Clock::time_point spin_end_;
  Clock::time_point deadline_;
};

}  // namespace ddp::internal
