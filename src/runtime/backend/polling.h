// Polling waits with a deadline for conditions that can only be polled, such as the end of NCCL's and MPI's operations.
#pragma once

#include <chrono>
#include <thread>

namespace ddp::internal {

// At first it polls as often as it can and yields the processor in between, because a small collective ends within
// microseconds. After `spin` it sleeps for `sleep` between two polls, so that a rank that waits long does not load a
// core.
//
//   Polling polling(timeout, std::chrono::milliseconds(2));
//   while (!done()) {
//     if (!polling.pause()) throw ...;
//   }
class Polling {
 public:
  Polling(std::chrono::milliseconds timeout, std::chrono::milliseconds spin,
          std::chrono::microseconds sleep = std::chrono::microseconds(50))
      : sleep_(sleep), spin_end_(Clock::now() + spin), deadline_(Clock::now() + timeout) {}

  // Pauses between two polls. Returns false without a pause if the timeout has passed.
  bool pause() const {
    const auto now = Clock::now();
    if (now >= deadline_) return false;
    if (now < spin_end_) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(sleep_);
    }
    return true;
  }

 private:
  using Clock = std::chrono::steady_clock;

  std::chrono::microseconds sleep_;
  Clock::time_point spin_end_;
  Clock::time_point deadline_;
};

}  // namespace ddp::internal
