// Console: one of the launcher's own outputs. It never blocks: what the console does not take waits in a backlog, and
// when that is full, the workers wait for a while, and then lines are dropped and counted.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "launcher/limits.h"
#include "launcher/output/console_layout.h"
#include "net/event_loop.h"

namespace ddp::launcher {

struct ConsoleBounds {
  std::size_t backlog = limits::kConsoleBacklog;
  std::chrono::milliseconds stall = limits::kConsoleStall;
  std::chrono::milliseconds goodbye = limits::kConsoleGoodbye;
  bool lossless = false;       // the workers wait for as long as it takes
  bool ends_last_line = true;  // at the end; false: it is left as it is, since it is one worker's alone
};

// Somewhere else than to the descriptor: over a connection. `take`: how many bytes it takes now, 0 if it has to wait,
// or nothing if there is no connection: then it is the descriptor's again. `waits_for`: what to wait for, to write.
struct ConsoleDetour {
  std::function<std::optional<std::size_t>(std::string_view bytes)> take;
  std::function<int()> waits_for;
};

// Whether both descriptors lead to the same terminal, pipe, socket or file.
bool same_file(int one, int other);

// Belongs to the event loop's thread. SIGPIPE must be ignored.
class Console {
 public:
  // The descriptor stays the caller's, and is neither closed nor changed: a terminal or pipe is opened once more,
  // without blocking; a regular file is not, since two descriptors on it share its offset.
  Console(net::EventLoop& loop, int fd, LineTag& tag, ConsoleBounds bounds);
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  // There is room again after full(). The console is gone for good, with the errno value; both from within any call.
  std::function<void()> on_room;
  std::function<void(int)> on_closed;

  // From now on. Who waited is to be told by flush().
  void redirect(ConsoleDetour detour) { detour_ = std::move(detour); }

  void show(const OutputLine& line);
  // A line of the launcher's own, without its end: never dropped.
  void show_own(std::string_view line) {
    if (!closed_) append_own(line);
  }
  // Ends an unfinished line.
  void finish_line() {
    if (!closed_) layout_.finish(backlog_);
  }
  // Writes what can be written now; the rest follows from the event loop.
  void flush();

  // The backlog is full: give it nothing until on_room. Ends by itself after the stall, unless lossless.
  bool full() const { return full_; }
  bool closed() const { return closed_; }
  bool terminal() const { return terminal_; }
  bool lossless() const { return bounds_.lossless; }
  // Lines of workers that were not shown (a line of several ranks counts for each).
  std::int64_t lost() const { return lost_; }
  // Of those, the ones that the last goodbye could not tell, since the console did not take its notice, either.
  std::int64_t untold() const { return untold_; }

  // The descriptor to wait for, for those who wait outside of the event loop; -1: nothing waits to be written.
  int waits_for() const { return unsent() > 0 && blocked_ ? descriptor() : -1; }
  // Ends a stall that is over; for the same.
  void tick();
  // Blocks until everything is written, or nothing was for `stall`, or for `limit` in all, or interrupted() says so (it
  // is asked every 100 ms; may be empty). True if all is written.
  bool flush_within(std::chrono::milliseconds stall, std::chrono::milliseconds limit,
                    const std::function<bool()>& interrupted);
  // The end: tells what was lost, writes everything within the bounds, and counts what is left as lost.
  void say_goodbye(const std::function<bool()>& interrupted);

 private:
  enum class Way { own, plain, socket, polled };

  void choose_way();
  int descriptor() const { return detour_.take ? detour_.waits_for() : own_ ? own_.get() : fd_; }
  std::size_t unsent() const { return backlog_.size() - sent_; }
  void append_own(std::string_view line);
  std::int64_t worker_lines_unsent() const;
  ssize_t write_some();
  void trim();
  void watch();
  void check_bounds();
  void stop_waiting();
  void tell_lost();
  void close(int error);

  net::EventLoop& loop_;
  int fd_;
  ConsoleBounds bounds_;
  bool terminal_;
  ConsoleLayout layout_;
  Way way_ = Way::plain;
  ConsoleDetour detour_;
  base::UniqueFd own_;
  std::string backlog_;
  std::size_t sent_ = 0;                // of the backlog
  std::vector<std::size_t> own_lines_;  // where lines of the launcher's own end in the backlog
  bool blocked_ = false;                // the console does not take more for now
  bool full_ = false;
  bool dropping_ = false;
  bool closed_ = false;
  std::int64_t lost_ = 0;
  std::int64_t told_ = 0;  // of lost_
  std::int64_t read_ = 0;  // of told_: the console has taken the notice
  std::int64_t untold_ = 0;
  std::vector<char> losing_;  // by stream: the current line is not shown any more
  OutputTime full_since_;
  std::unique_ptr<net::Watch> writable_;
  std::unique_ptr<net::Watch> stall_;
};

}  // namespace ddp::launcher
