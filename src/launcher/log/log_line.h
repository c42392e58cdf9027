// LogLine: one line of the launcher's own, for the console and for --launcher-log; LogSettings: which are logged.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace ddp::launcher {

// From the least important one on.
enum class LogLevel : std::uint8_t {
  trace,
  debug,
  info,
  note,     // the user may want to change something
  warning,  // something is wrong, and the job goes on
  error,    // the job, or a part of it, ends
  answer,   // to a question of the user: always shown
};
// What --log-level takes, in the same order.
inline constexpr std::string_view kLogLevelNames = "trace debug info note warning error";

// The component that a line is about.
enum class LogSource : std::uint8_t { launcher, job, nodes, store, workers, signals, hangs, output, ssh };
inline constexpr std::string_view kLogSourceNames[] = {"launcher", "job",   "nodes",  "store", "workers",
                                                       "signals",  "hangs", "output", "ssh"};

struct LogLine {
  LogLevel level = LogLevel::info;
  LogSource source = LogSource::job;
  std::string text;  // if it begins with a space, it belongs to the line before

  friend bool operator==(const LogLine&, const LogLine&) = default;
};

// Which lines are logged, and where.
struct LogSettings {
  LogLevel level = LogLevel::info;  // of the console: the least important that it shows
  std::string file;                 // --launcher-log; empty: none
  bool color = false;               // on the console

  friend bool operator==(const LogSettings&, const LogSettings&) = default;
};

using LogWriter = std::function<void(const LogLine& line)>;

}  // namespace ddp::launcher
