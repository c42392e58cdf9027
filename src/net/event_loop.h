// EventLoop: one thread's waiting for descriptors, timers and signals. A thin cover over Boost.Asio, so that Asio's
// headers stay in a few files (docs/development/decisions/0001-event-loop.md).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <span>

namespace ddp::net {

class EventLoopAsio;

// A pending wait. Destroying it cancels the wait: its callback will not be called any more.
class Watch {
 public:
  virtual ~Watch() = default;
};

// What time it is, and calls at a time. A seam: simulations have a clock of their own.
class Timers {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  virtual ~Timers() = default;

  virtual TimePoint now() const { return std::chrono::steady_clock::now(); }
  // Calls `due` once, at `when`.
  [[nodiscard]] virtual std::unique_ptr<Watch> at(TimePoint when, std::function<void()> due) = 0;
};

// Everything here belongs to the thread that calls run(). Callbacks must not block.
class EventLoop : public Timers {
 public:
  EventLoop();
  ~EventLoop() override;
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Calls `ready` once, when `fd` can be read. The descriptor stays the caller's and must outlive the watch.
  [[nodiscard]] std::unique_ptr<Watch> watch_readable(int fd, std::function<void()> ready);

  // Calls `ready` again and again, each time `fd` can be read.
  [[nodiscard]] std::unique_ptr<Watch> keep_watching(int fd, std::function<void()> ready);

  // As watch_readable, for writing. A closed peer counts as writable. The descriptor keeps its flags: it may be shared
  // with other processes, to which a non-blocking console would be a surprise.
  [[nodiscard]] std::unique_ptr<Watch> watch_writable(int fd, std::function<void()> ready);

  [[nodiscard]] std::unique_ptr<Watch> at(TimePoint when, std::function<void()> due) override;

  // Calls `arrived` each time one of `signals` arrives.
  [[nodiscard]] std::unique_ptr<Watch> on_signals(std::span<const int> signals, std::function<void(int)> arrived);

  // The children of this process whose end is awaited on this loop. Other code must not reap them.
  const std::set<pid_t>& children() const;

  // For files that use Asio themselves (net/event_loop_asio.h).
  EventLoopAsio& asio() { return *asio_; }

  // Runs callbacks until one of them calls stop(). May be called again.
  void run();
  // Runs the callbacks that are due now; none after one has called stop().
  void poll();
  // Ends the run() or poll() that is under way; with none under way, nothing.
  void stop();

 private:
  std::unique_ptr<EventLoopAsio> asio_;
};

}  // namespace ddp::net
