// Defines how long a test waits for an event: long enough for a busy computer, short enough for a failure.
#pragma once

#include <chrono>
#include <thread>

namespace ddp::test {

inline constexpr std::chrono::seconds kPatience{30};

inline std::chrono::steady_clock::time_point soon() {
  return std::chrono::steady_clock::now() + kPatience;
}

// Returns whether the condition becomes true in time.
template <typename Condition>
bool eventually(Condition&& condition) {
  const auto end = soon();
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace ddp::test
