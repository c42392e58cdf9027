// Console is one of the launcher's own outputs. It never blocks: a backlog keeps what the console does not accept. When
// the backlog is full, the workers wait for a while, and then lines are dropped and counted.
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
#include "launcher/run/output/console_layout.h"
#include "launcher/run/output/footer.h"
#include "net/event_loop.h"

namespace ddp::launcher {

struct ConsoleBounds {
  std::size_t backlog = limits::kConsoleBacklog;
  std::chrono::milliseconds stall = limits::kConsoleStall;
  std::chrono::milliseconds goodbye = limits::kConsoleGoodbye;
  bool lossless = false;       // the workers wait for as long as necessary
  bool ends_last_line = true;  // end the last line; false if the output is a single worker's and stays unchanged
};

// Sends the output over a connection instead of to the descriptor. `take` returns how many bytes it accepts now, or 0
// if it has to wait. It returns std::nullopt if there is no connection; from then on the descriptor gets the output
// again. `waits_for` returns the descriptor that becomes writable when `take` accepts bytes.
struct ConsoleDetour {
  std::function<std::optional<std::size_t>(std::string_view bytes)> take;
  std::function<int()> waits_for;
};

// Returns whether both descriptors lead to the same terminal, pipe, socket or file.
bool same_file(int one, int other);

// Belongs to the event loop's thread. SIGPIPE must be ignored.
class Console {
 public:
  // The caller keeps the descriptor, which is neither closed nor changed. A terminal or pipe is opened a second time,
  // without blocking. A regular file is not, because its descriptors share one offset.
  Console(net::EventLoop& loop, int fd, LineTag& tag, ConsoleBounds bounds);
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  // `on_room` is called when there is space again after full(). `on_closed` is called with the errno value when the
  // console is closed for good. Both may be called from within any function of this class.
  std::function<void()> on_room;
  std::function<void(int)> on_closed;
  // Called before each line of a worker.
  std::function<void()> before_line;

  // Redirects the output from now on. If `take` had to wait, the caller must call flush() when it accepts bytes again.
  void redirect(ConsoleDetour detour) { detour_ = std::move(detour); }

  // Shows these lines below the output from now on, or none if there are no lines. They are erased before other output
  // and drawn again after it, at most once per limits::kFooterPause, and only after the console has accepted all
  // output. Does nothing if the console is no terminal, or after a worker has moved the cursor to other lines.
  void set_footer(std::vector<std::string> lines);
  // Returns the size of the terminal.
  TerminalSize size() const;
  // Draws the footer again, because the terminal has another size.
  void redraw_footer();
  // Erases the footer, because another writer of the terminal follows. It is drawn again after limits::kFooterPause.
  void yield_footer();

  void show(const OutputLine& line);
  // Shows one of the launcher's own lines, given without its end. It is never dropped.
  void show_own(std::string_view line) {
    if (!closed_) append_own(line);
  }
  // Ends an unfinished line, because another writer of the console follows.
  void finish_line() {
    if (closed_) return;
    erase_footer();
    layout_.finish(backlog_);
  }
  // Writes as much as possible now; the event loop writes the rest.
  void flush();

  // Returns whether the backlog is full. If so, the caller must add nothing until `on_room`. The state ends by itself
  // after the stall, unless lossless.
  bool full() const { return full_; }
  bool closed() const { return closed_; }
  bool terminal() const { return terminal_; }
  // Returns whether the output may appear on a terminal, which may also be at the other end of a pipe.
  bool may_be_terminal() const { return terminal_ || is_pipe_; }
  // Returns the number of worker lines that were not shown (a line of several ranks counts once per rank).
  std::int64_t lost() const { return lost_; }
  // Returns how many of these the last say_goodbye() could not report, because the console did not accept its notice
  // either.
  std::int64_t untold() const { return untold_; }

  // Returns the descriptor to wait for, for callers that wait outside of the event loop, or -1 if nothing waits to be
  // written.
  int waits_for() const { return unsent() > 0 && blocked_ ? descriptor() : -1; }
  // Ends a stall that has lasted long enough, for callers that wait outside of the event loop.
  void tick();
  // Blocks until everything is written, until nothing was written for `stall`, or until `limit`. Also ends if
  // interrupted() returns true; it is called every 100 ms and may be empty. Returns true if everything is written.
  bool flush_within(std::chrono::milliseconds stall, std::chrono::milliseconds limit,
                    const std::function<bool()>& interrupted);
  // Ends the output: reports what was lost, writes everything within the bounds, and counts the rest as lost.
  void say_goodbye(const std::function<bool()>& interrupted);

 private:
  enum class Way { own, plain, socket, polled };

  void choose_way();
  int descriptor() const { return detour_.take ? detour_.waits_for() : own_ ? own_.get() : fd_; }
  std::size_t unsent() const { return backlog_.size() - sent_; }
  void append_own(std::string_view line);
  void append_footer(const std::string& bytes);
  void erase_footer();
  void update_footer();
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
  bool is_pipe_ = false;
  ConsoleLayout layout_;
  Footer footer_;
  OutputTime footer_due_;  // no drawing before
  std::unique_ptr<net::Watch> footer_timer_;
  Way way_ = Way::plain;
  ConsoleDetour detour_;
  base::UniqueFd own_;
  std::string backlog_;
  std::size_t sent_ = 0;                // number of bytes of the backlog that were written
  std::vector<std::size_t> own_lines_;  // where the launcher's own lines end in the backlog
  bool blocked_ = false;                // the console accepts no more for now
  bool full_ = false;
  bool dropping_ = false;
  bool closed_ = false;
  std::int64_t lost_ = 0;
  std::int64_t reported_ = 0;  // part of `lost_` that was reported
  std::int64_t read_ = 0;      // part of `told_` whose notice the console accepted
  std::int64_t untold_ = 0;
  std::vector<char> losing_;  // by stream; not 0 if the rest of the current line is dropped
  OutputTime full_since_;
  std::unique_ptr<net::Watch> writable_;
  std::unique_ptr<net::Watch> stall_;
};

}  // namespace ddp::launcher
