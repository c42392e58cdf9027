// Polling waits with a deadline for conditions that can only be polled, such as the end of NCCL's and MPI's operations.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

namespace ddp::internal {

// Says how long a thread sleeps between two polls. The time doubles from one sleep to the next, so that a short wait is
// not prolonged by more than itself, and a long one costs few polls.
struct Sleeps {
  std::chrono::microseconds next{50};
  std::chrono::microseconds longest{50};

  // Returns the time of this sleep.
  std::chrono::microseconds take() {
    const std::chrono::microseconds taken = next;
    next = std::min(2 * next, longest);
    return taken;
  }
};

// At first it polls as often as it can and yields the processor in between, because a small collective ends within
// microseconds. After `spin` it sleeps between two polls, so that a rank that waits long does not load a core.
//
//   Polling polling(timeout, std::chrono::milliseconds(2));
//   while (!done()) {
//     if (!polling.pause()) throw ...;
//   }
class Polling {
 public:
  Polling(std::chrono::milliseconds timeout, std::chrono::milliseconds spin, Sleeps sleeps = {})
      : sleeps_(sleeps), spin_end_(Clock::now() + spin), deadline_(Clock::now() + timeout) {}

  // Pauses between two polls. Returns false without a pause if the timeout has passed.
  bool pause() {
    const auto now = Clock::now();
    if (now >= deadline_) return false;
    if (now < spin_end_) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(sleeps_.take());
    }
    return true;
  }

 private:
  using Clock = std::chrono::steady_clock;

  Sleeps sleeps_;
  Clock::time_point spin_end_;
  Clock::time_point deadline_;
};

}  // namespace ddp::internal
