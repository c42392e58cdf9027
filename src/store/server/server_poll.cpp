#include "store/server/server_poll.h"

#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>

namespace ddp::store {

std::size_t descriptors_for_clients() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return limits::kStoreConnections;
  return static_cast<std::size_t>(limit.rlim_cur - std::min<rlim_t>(limit.rlim_cur / 2, limits::kStoreSparedFiles));
}

bool ServerPoll::open(std::uint64_t timer) {
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  timer_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  return epoll_ && timer_ && watch(timer_.get(), timer, EPOLLIN);
}

bool ServerPoll::watch(int fd, std::uint64_t number, std::uint32_t interest) {
  epoll_event event{};
  event.events = interest;
  event.data.u64 = number;
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

void ServerPoll::change(int fd, std::uint64_t number, std::uint32_t interest) {
  epoll_event event{};
  event.events = interest;
  event.data.u64 = number;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void ServerPoll::set_timer(std::chrono::nanoseconds delay) {
  itimerspec when{};
  ::timerfd_gettime(timer_.get(), &when);
  // This is 0 if the timer has expired. Setting it would clear the expiry.
  const auto left = std::chrono::seconds(when.it_value.tv_sec) + std::chrono::nanoseconds(when.it_value.tv_nsec);
  if (is_set_ && left < delay) return;
  is_set_ = true;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(delay);
  when.it_value = {seconds.count(), (delay - seconds).count()};
  ::timerfd_settime(timer_.get(), 0, &when, nullptr);
}

bool ServerPoll::take_timer() {
  std::uint64_t expirations = 0;
  if (::read(timer_.get(), &expirations, sizeof expirations) <= 0) return false;
  is_set_ = false;
  return true;
}

std::span<const epoll_event> ServerPoll::ready() {
  const int count = ::epoll_wait(epoll_.get(), events_.data(), static_cast<int>(events_.size()), 0);
  return std::span(events_).first(count > 0 ? static_cast<std::size_t>(count) : 0);
}

}  // namespace ddp::store
