// ServerPoll: the descriptors that a store server waits for, each under a number of its own, and one timer.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <span>

#include "base/unique_fd.h"
#include "store/limits.h"

namespace ddp::store {

// Descriptors that clients may take: some are left for whoever runs the server.
std::size_t descriptors_for_clients();

// Not thread-safe. The descriptors stay the caller's; closing one ends its being watched.
class ServerPoll {
 public:
  // False, with errno: there are no descriptors left. `timer` is the number of the timer.
  bool open(std::uint64_t timer);

  // Can be read when ready() has something.
  int fd() const { return epoll_.get(); }

  // EPOLLIN, EPOLLOUT. False, with errno.
  bool watch(int fd, std::uint64_t number, std::uint32_t interest);
  void change(int fd, std::uint64_t number, std::uint32_t interest);
  void ignore(int fd) { ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

  // The timer is due after this, unless it is due before.
  void set_timer(std::chrono::nanoseconds delay);
  // It is due no more. False: it was not.
  bool take_timer();

  // What is due now, in part if it is much. Valid until the next call.
  std::span<const epoll_event> ready();

 private:
  base::UniqueFd epoll_;
  base::UniqueFd timer_;
  std::array<epoll_event, limits::kStoreTurnEvents> events_;
};

}  // namespace ddp::store
