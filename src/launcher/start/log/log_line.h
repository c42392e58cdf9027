// LogLine is one of the launcher's own lines, for the console and for --launcher-log. LogSettings says which lines are
// logged.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace ddp::launcher {

// The levels are in ascending order of importance.
enum class LogLevel : std::uint8_t {
  trace,
  debug,
  info,
  note,     // the user may want to change something
  warning,  // something is wrong, and the job continues
  error,    // the job, or a part of it, ends
  answer,   // the answer to a question of the user, which is always shown
};
// Lists the values of --log-level, in the same order.
inline constexpr std::string_view kLogLevelNames = "trace debug info note warning error";

// Names the component that a line is about.
enum class LogSource : std::uint8_t { launcher, job, nodes, store, workers, signals, hangs, output, ssh };
inline constexpr std::string_view kLogSourceNames[] = {"launcher", "job",   "nodes",  "store", "workers",
                                                       "signals",  "hangs", "output", "ssh"};

struct LogLine {
  LogLevel level = LogLevel::info;
  LogSource source = LogSource::job;
  std::string text;  // if it begins with a space, it belongs to the line before

  friend bool operator==(const LogLine&, const LogLine&) = default;
};

// Says which lines are logged, and where.
struct LogSettings {
  LogLevel level = LogLevel::info;  // the least important level that the console shows
  std::string file;                 // --launcher-log; empty if there is none
  bool color = false;               // whether the console shows colours

  friend bool operator==(const LogSettings&, const LogSettings&) = default;
};

using LogWriter = std::function<void(const LogLine& line)>;

}  // namespace ddp::launcher
