// Signals interrupt calls that wait: poll() always, and others if the handler was installed without SA_RESTART. Some
// network file systems also interrupt open() or fsync(). These functions continue such calls.
#pragma once

#include <cerrno>
#include <chrono>

namespace ddp::base {

// Makes a system call, and makes it again if a signal interrupted it. Do not use it for close(), which has closed the
// descriptor nevertheless.
template <typename Call>
auto uninterrupted(Call&& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

// Waits with poll() until `fd` is ready for `events`, whatever signals come. Returns 0 if it is not ready in time, and
// a negative value and errno upon an error. It looks once even after the deadline.
int poll_until(int fd, short events, std::chrono::steady_clock::time_point deadline);

}  // namespace ddp::base
