// Log: where the launcher's own lines go: to stderr, each preceded by "ddplaunch: ", and to --launcher-log. The only
// file pair that knows spdlog. docs/development/decisions/0035-spdlog-logs.md
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "base/result.h"
#include "launcher/limits.h"
#include "launcher/log/log_line.h"

namespace ddp::launcher {

// Belongs to one thread.
class Log {
 public:
  explicit Log(const LogSettings& settings);
  ~Log();

  // Opens --launcher-log, if there is one. Returns the reason if that fails. It gets all lines from LogLevel::debug on,
  // or from LogLevel::trace on if the console shows those.
  std::optional<base::Failure> open_file();

  // Called before each line on the console, so that it does not land in the middle of another one, with the longest
  // time that it may wait for the console. Empty: nothing is called.
  void before_line(std::function<void(std::chrono::milliseconds most)> prepare) { prepare_ = std::move(prepare); }

  // Returns true if the console or the file shows such a line.
  bool wants(LogLevel level) const;

  // Writes the line to the file.
  void record(const LogLine& line);
  // Shows the line on the console. Returns false if the console did not take it within limits::kConsoleWait, and drops
  // the line; after that, lines are dropped without a wait until the console takes one again. A line is cut if it does
  // not fit into one write of PIPE_BUF bytes.
  bool show(const LogLine& line) { return show(line, /*is_last=*/false); }
  // The same for a line after which nothing must be done in time. All these lines together wait up to
  // limits::kLastWordsWait for a console that takes nothing (a pager, Ctrl-S, a collector of logs).
  void show_last(const LogLine& line) { show(line, /*is_last=*/true); }
  // Called every 50 ms while show_last() waits; true ends the wait. Empty: nothing ends it early.
  void while_waiting(std::function<bool()> gives_up) { gives_up_ = std::move(gives_up); }

  // record() and show().
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
  // All lines of a report together must not wait for so long that other nodes take this one for lost.
  std::chrono::milliseconds wait() const { return takes_lines_ ? limits::kConsoleWait : std::chrono::milliseconds(0); }
  bool console_is_ready(bool is_last);

  const LogSettings settings_;
  std::unique_ptr<Sinks> sinks_;
  std::function<void(std::chrono::milliseconds)> prepare_;
  std::function<bool()> gives_up_;
  std::chrono::milliseconds patience_;  // left for last lines
  bool takes_lines_ = true;             // the console has taken the line before
};

}  // namespace ddp::launcher
