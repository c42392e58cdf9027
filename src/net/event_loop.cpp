#include "net/event_loop.h"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <poll.h>
#include <sys/epoll.h>

#include "base/unique_fd.h"
#include "net/event_loop_asio.h"

namespace ddp::net {

namespace {

namespace asio = boost::asio;
using boost::system::error_code;

// Asio may have queued a handler as successful before its watch was destroyed. `alive_` suppresses such a handler.
class CancellingWatch : public Watch {
 protected:
  std::weak_ptr<int> alive() const { return alive_; }

 private:
  std::shared_ptr<int> alive_ = std::make_shared<int>();
};

// Asio reuses what it knows of a closed descriptor for the next one, and may then complete a wait for the new one with
// an event of the old one. Therefore this watch asks the kernel before it believes an event.
class DescriptorWatch : public CancellingWatch {
 public:
  DescriptorWatch(asio::io_context& context, int fd, asio::posix::stream_descriptor::wait_type what, bool is_lasting,
                  std::function<void()> ready)
      : descriptor_(context, fd), what_(what), is_lasting_(is_lasting), ready_(std::move(ready)) {
    wait();
  }
  ~DescriptorWatch() override {
    if (descriptor_.is_open()) descriptor_.release();
  }

 private:
  void wait() {
    descriptor_.async_wait(what_, [this, alive = alive()](const error_code& error) {
      if (error == asio::error::operation_aborted || alive.expired() || (error && is_lasting_)) return;
      if (!is_ready()) return wait();
      if (is_lasting_) {
        wait();
      } else {
        descriptor_.release();  // `ready` can then watch it again before this watch is destroyed
      }
      const auto ready = is_lasting_ ? ready_ : std::move(ready_);  // it may destroy this watch
      ready();
    });
  }

  bool is_ready() {
    const bool for_reading = what_ == asio::posix::stream_descriptor::wait_read;
    pollfd asked{descriptor_.native_handle(), static_cast<short>(for_reading ? POLLIN : POLLOUT), 0};
    return ::poll(&asked, 1, 0) != 0;
  }

  asio::posix::stream_descriptor descriptor_;
  asio::posix::stream_descriptor::wait_type what_;
  bool is_lasting_;
  std::function<void()> ready_;
};

// Asio makes a descriptor non-blocking when it watches it, which affects other processes on the same console. Therefore
// it watches an epoll instance instead, which is readable when the descriptor is writable.
class WritableWatch : public Watch {
 public:
  WritableWatch(asio::io_context& context, int fd, std::function<void()> ready)
      : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    epoll_event writable{};
    writable.events = EPOLLOUT;
    const bool added = epoll_ && ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &writable) == 0;
    const auto what = added ? asio::posix::stream_descriptor::wait_read : asio::posix::stream_descriptor::wait_write;
    watch_ = std::make_unique<DescriptorWatch>(context, added ? epoll_.get() : fd, what, false, std::move(ready));
  }

 private:
  base::UniqueFd epoll_;
  std::unique_ptr<Watch> watch_;
};

class TimerWatch : public CancellingWatch {
 public:
  TimerWatch(asio::io_context& context, std::chrono::steady_clock::time_point when, std::function<void()> due)
      : timer_(context, when) {
    timer_.async_wait([alive = alive(), due = std::move(due)](const error_code& error) {
      if (!error && !alive.expired()) due();
    });
  }

 private:
  asio::steady_timer timer_;
};

class SignalWatch : public CancellingWatch {
 public:
  SignalWatch(asio::io_context& context, std::span<const int> signals, std::function<void(int)> arrived)
      : signals_(context), arrived_(std::move(arrived)) {
    for (const int signal : signals) signals_.add(signal);
    wait();
  }

 private:
  void wait() {
    signals_.async_wait([this, alive = alive()](const error_code& error, int signal) {
      if (error || alive.expired()) return;
      wait();
      const auto arrived = arrived_;  // it may destroy this watch
      arrived(signal);
    });
  }

  asio::signal_set signals_;
  std::function<void(int)> arrived_;
};

}  // namespace

EventLoop::EventLoop() : asio_(std::make_unique<EventLoopAsio>()) {}
EventLoop::~EventLoop() = default;

std::unique_ptr<Watch> EventLoop::watch_readable(int fd, std::function<void()> ready) {
  return std::make_unique<DescriptorWatch>(asio_->context, fd, asio::posix::stream_descriptor::wait_read, false,
                                           std::move(ready));
}

std::unique_ptr<Watch> EventLoop::keep_watching(int fd, std::function<void()> ready) {
  return std::make_unique<DescriptorWatch>(asio_->context, fd, asio::posix::stream_descriptor::wait_read, true,
                                           std::move(ready));
}

std::unique_ptr<Watch> EventLoop::watch_writable(int fd, std::function<void()> ready) {
  return std::make_unique<WritableWatch>(asio_->context, fd, std::move(ready));
}

std::unique_ptr<Watch> EventLoop::at(std::chrono::steady_clock::time_point when, std::function<void()> due) {
  return std::make_unique<TimerWatch>(asio_->context, when, std::move(due));
}

std::unique_ptr<Watch> EventLoop::on_signals(std::span<const int> signals, std::function<void(int)> arrived) {
  return std::make_unique<SignalWatch>(asio_->context, signals, std::move(arrived));
}

const std::set<pid_t>& EventLoop::children() const {
  return asio_->children;
}

void EventLoop::run() {
  const auto guard = asio::make_work_guard(asio_->context);
  asio_->context.restart();
  asio_->context.run();
}

void EventLoop::poll() {
  // Without work, poll() would mark the context as stopped, as stop() does.
  const auto guard = asio::make_work_guard(asio_->context);
  asio_->context.restart();
  asio_->context.poll();
}

void EventLoop::stop() {
  asio_->context.stop();
}

}  // namespace ddp::net
