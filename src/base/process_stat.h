// Reads what the kernel says about a process or a thread in its file `stat` (proc(5)). No other file reads that format.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddp::base {

// Times are in clock ticks: sysconf(_SC_CLK_TCK) per second.
struct ProcessStat {
  std::string name;  // of the thread, or of the process's first one; at most 15 bytes
  char state = '?';  // R, S, D, T (stopped), t (traced), Z, …
  pid_t parent = 0;
  pid_t group = 0;
  std::int64_t terminal = 0;       // device of the controlling terminal; 0 if there is none
  pid_t foreground = 0;            // process group in the foreground of that terminal; -1 if there is none
  std::uint64_t minor_faults = 0;  // its own
  std::uint64_t major_faults = 0;  // its own
  std::uint64_t cpu_ticks = 0;     // of its own threads, user and system
  std::uint64_t started = 0;       // after the node's start
  std::uint64_t rss_pages = 0;     // includes memory that it shares with other processes
  std::optional<int> wait_status;  // of a dead process, as wait() returns it; the kernel shows 0 to other users
  // These belong to children that the process has reaped.
  std::uint64_t minor_faults_of_children = 0;
  std::uint64_t major_faults_of_children = 0;
  std::uint64_t cpu_ticks_of_children = 0;
};

// Returns std::nullopt if the text is invalid.
std::optional<ProcessStat> parse_process_stat(std::string_view text);

// Reads the file in this folder, such as "/proc/4711" or "/proc/4711/task/4712". Returns std::nullopt if there is no
// such process.
std::optional<ProcessStat> read_process_stat(const std::string& folder);
std::optional<ProcessStat> read_process_stat(pid_t pid);

}  // namespace ddp::base
