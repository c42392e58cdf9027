// EventLoop waits for descriptors, timers and signals on one thread. It wraps Boost.Asio thinly, so that Asio's headers
// stay in a few files (docs/development/decisions/0001-event-loop.md).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <span>

namespace ddp::net {

class EventLoopAsio;

// Represents a pending wait. Destroying it cancels the wait, and its callback is not called any more.
class Watch {
 public:
  virtual ~Watch() = default;
};

// Timers gives the time and calls functions at a time. Simulations replace it by their own clock.
class Timers {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  virtual ~Timers() = default;

  virtual TimePoint now() const { return std::chrono::steady_clock::now(); }
  // Calls `due` once, at `when`.
  [[nodiscard]] virtual std::unique_ptr<Watch> at(TimePoint when, std::function<void()> due) = 0;
};

// Only the thread that calls run() may use it. Callbacks must not block.
class EventLoop : public Timers {
 public:
  EventLoop();
  ~EventLoop() override;
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Calls `ready` once, when `fd` can be read. The caller keeps the descriptor, which must outlive the watch.
  [[nodiscard]] std::unique_ptr<Watch> watch_readable(int fd, std::function<void()> ready);

  // Calls `ready` each time `fd` can be read.
  [[nodiscard]] std::unique_ptr<Watch> keep_watching(int fd, std::function<void()> ready);

  // Works like watch_readable, for writing. A closed peer counts as writable. The descriptor keeps its flags, because
  // it may be a console shared with processes that expect it to block.
  [[nodiscard]] std::unique_ptr<Watch> watch_writable(int fd, std::function<void()> ready);

  [[nodiscard]] std::unique_ptr<Watch> at(TimePoint when, std::function<void()> due) override;

  // Calls `arrived` each time one of `signals` arrives.
  [[nodiscard]] std::unique_ptr<Watch> on_signals(std::span<const int> signals, std::function<void(int)> arrived);

  // Returns the children of this process whose end is awaited on this loop. Other code must not reap them.
  const std::set<pid_t>& children() const;

  // Gives access to Asio for files that use it themselves (net/event_loop_asio.h).
  EventLoopAsio& asio() { return *asio_; }

  // Runs callbacks until one of them calls stop(). It may be called again.
  void run();
  // Runs the callbacks that are ready now, but none after one has called stop().
  void poll();
  // Ends the current run() or poll(). If there is none, it does nothing.
  void stop();

 private:
  std::unique_ptr<EventLoopAsio> asio_;
};

}  // namespace ddp::net
