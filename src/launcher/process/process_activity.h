// What the processes of a rank have done so far, as the kernel counts it: what ActivityMeter compares.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "net/tcp_bytes.h"

namespace ddp::launcher {

// One process. The numbers only grow, and those of children that it has reaped are in them.
struct ProcessCounters {
  pid_t pid = 0;
  std::uint64_t started = 0;  // in clock ticks after the machine's start: with the pid a name that is never given again
  std::uint64_t cpu_ticks = 0;  // of all threads, user and system; sysconf(_SC_CLK_TCK) a second
  std::uint64_t minor_faults = 0;
  std::uint64_t major_faults = 0;
  std::uint64_t io_bytes = 0;  // that went through read, write and their kind; 0 where we may not look
  bool is_runnable = false;    // a thread runs, or wants to and gets no processor

  friend bool operator==(const ProcessCounters&, const ProcessCounters&) = default;
};

// All processes of a rank, the TCP connections that they hold, and what it has printed, at one moment.
struct ActivitySample {
  std::vector<ProcessCounters> processes;
  std::vector<net::TcpBytes> connections;  // without those to the job's store
  bool knows_connections = false;          // false: the kernel does not tell of them
  std::uint64_t output_bytes = 0;
};

// The text of /proc/PID/stat, without `io_bytes` and `is_runnable`. Nothing if it is no such text.
std::optional<ProcessCounters> parse_process_counters(std::string_view stat);

// The processes that are there, of these. Reads two files a process and one a thread.
std::vector<ProcessCounters> read_process_counters(std::span<const pid_t> processes);

// Those of `all` that one of the processes holds, without those from or to `store_port`. Reads the processes' folders
// of descriptors; what we may not read is left out.
std::vector<net::TcpBytes> connections_of(std::span<const pid_t> processes, const std::vector<net::TcpBytes>& all,
                                          std::uint16_t store_port);

}  // namespace ddp::launcher
