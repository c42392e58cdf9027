#include "base/uninterrupted.h"

#include <poll.h>

#include <algorithm>
#include <cstdint>

namespace ddp::base {

int poll_until(int fd, short events, std::chrono::steady_clock::time_point deadline) {
  constexpr std::int64_t kLongest = 1'000'000;
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    pollfd entry{fd, events, 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, kLongest)));
    if (ready > 0 || (ready < 0 && errno != EINTR) || (ready == 0 && left <= 0)) return ready;
  }
}

}  // namespace ddp::base
