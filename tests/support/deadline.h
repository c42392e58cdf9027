// How long a test waits for what must come: long enough for a loaded machine, short enough to be a failure.
#pragma once

#include <chrono>

namespace ddp::test {

inline constexpr std::chrono::seconds kPatience{30};

inline std::chrono::steady_clock::time_point soon() {
  return std::chrono::steady_clock::now() + kPatience;
}

}  // namespace ddp::test
