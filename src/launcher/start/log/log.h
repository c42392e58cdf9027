// Log writes the launcher's own lines to stderr, each preceded by "ddplaunch: ", and to --launcher-log. Only this file
// pair depends on spdlog. See docs/development/decisions/0035-spdlog-logs.md.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "base/result.h"
#include "launcher/limits.h"
#include "launcher/start/log/log_line.h"

namespace ddp::launcher {

// Belongs to one thread.
class Log {
 public:
  explicit Log(const LogSettings& settings);
  ~Log();

  // Opens --launcher-log, if it is given. Returns the reason if that fails. The file gets all lines from
  // LogLevel::debug on, or from LogLevel::trace on if the console shows those.
  std::optional<base::Failure> open_file();

  // `prepare` is called before each line on the console, so that the line does not appear in the middle of another one.
  // Its argument is the longest time that it may wait for the console. An empty function is not called.
  void before_line(std::function<void(std::chrono::milliseconds most)> prepare) { prepare_ = std::move(prepare); }

  // Returns true if the console or the file shows such a line.
  bool wants(LogLevel level) const;

  // Writes the line to the file.
  void record(const LogLine& line);
  // Shows the line on the console. If the console does not accept it within limits::kConsoleWait, drops the line and
  // returns false. After that, lines are dropped without a wait until the console accepts one again. A line is cut if
  // it does not fit into one write of PIPE_BUF bytes.
  bool show(const LogLine& line) { return show(line, /*is_last=*/false); }
  // Does the same for a line after which nothing must be done in time. All these lines together wait up to
  // limits::kLastWordsWait for a console that accepts nothing (a pager, Ctrl-S, a log collector).
  void show_last(const LogLine& line) { show(line, /*is_last=*/true); }
  // `gives_up` is called every 50 ms while show_last() waits, and ends the wait by returning true. If it is empty,
  // nothing ends the wait early.
  void while_waiting(std::function<bool()> gives_up) { gives_up_ = std::move(gives_up); }

  // Calls record() and show().
  void write(const LogLine& line) {
    record(line);
    show(line);
  }
  void write_last(const LogLine& line) {
    record(line);
    show_last(line);
  }

 private:
  class Sinks;

  bool show(const LogLine& line, bool is_last);
  // All lines of a report together must not wait so long that other nodes take this node for lost.
  std::chrono::milliseconds wait() const { return takes_lines_ ? limits::kConsoleWait : std::chrono::milliseconds(0); }
  bool console_is_ready(bool is_last);

  const LogSettings settings_;
  std::unique_ptr<Sinks> sinks_;
  std::function<void(std::chrono::milliseconds)> prepare_;
  std::function<bool()> gives_up_;
  std::chrono::milliseconds patience_;  // time that is left for last lines
  bool takes_lines_ = true;             // the console accepted the previous line
};

}  // namespace ddp::launcher
