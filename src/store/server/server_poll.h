// ServerPoll holds the descriptors that a store server waits for, each with a number, and one timer.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <span>

#include "base/unique_fd.h"
#include "store/limits.h"

namespace ddp::store {

// Returns how many descriptors clients may use. Some are reserved for the process that runs the server.
std::size_t descriptors_for_clients();

// It is not thread-safe. The caller owns the descriptors. Closing one ends its watch.
class ServerPoll {
 public:
  // Returns false, with errno, if there are no descriptors left. `timer` is the number of the timer.
  bool open(std::uint64_t timer);

  // The descriptor is readable when ready() has events.
  int fd() const { return epoll_.get(); }

  // `interest` is EPOLLIN, EPOLLOUT or both. Returns false, with errno, on failure.
  bool watch(int fd, std::uint64_t number, std::uint32_t interest);
  void change(int fd, std::uint64_t number, std::uint32_t interest);
  void ignore(int fd) { ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

  // Makes the timer expire after `delay`, unless it expires earlier.
  void set_timer(std::chrono::nanoseconds delay);
  // Clears a pending expiry. Returns false if there was none.
  bool take_timer();

  // Returns the current events, or a part of them if there are many. The result is valid until the next call.
  std::span<const epoll_event> ready();

 private:
  base::UniqueFd epoll_;
  base::UniqueFd timer_;
  bool is_set_ = false;  // the timer runs, or its expiry is pending
  std::array<epoll_event, limits::kStoreTurnEvents> events_;
};

}  // namespace ddp::store
