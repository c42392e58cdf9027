#include "torch_reader/worker_ends.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace ddp::torch_reader {

void WorkerEnds::follow(pid_t pid) {
  if (processes_.contains(pid)) return;
  processes_[pid] = base::UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

bool WorkerEnds::wait_until(std::chrono::steady_clock::time_point time, std::span<const int> descriptors) {
  std::vector<pollfd> observed;
  for (const auto& [pid, process] : processes_) {
    if (process) observed.push_back({process.get(), POLLIN, 0});
  }
  for (const int descriptor : descriptors) observed.push_back({descriptor, POLLIN, 0});
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(time - std::chrono::steady_clock::now());
  const int timeout = static_cast<int>(std::max<std::int64_t>(left.count(), 0));
  if (::poll(observed.data(), observed.size(), timeout) <= 0) return false;
  bool one_has_ended = false;
  for (auto& [pid, process] : processes_) {
    const bool has_ended =
        std::ranges::any_of(observed, [&](const pollfd& one) { return one.fd == process.get() && one.revents != 0; });
    if (has_ended) process.reset();
    one_has_ended = one_has_ended || has_ended;
  }
  return one_has_ended;
}

}  // namespace ddp::torch_reader
