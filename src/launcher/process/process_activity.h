// What the processes of a rank have done so far, as the kernel counts it: what ActivityMeter compares.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "launcher/process/gpu_counters.h"
#include "net/tcp_bytes.h"

namespace ddp::launcher {

// One process. The numbers only grow, and those of children that it has reaped are in them.
struct ProcessCounters {
  pid_t pid = 0;
  std::uint64_t started = 0;    // in clock ticks after the node's start: with the pid a name that is never given again
  std::uint64_t cpu_ticks = 0;  // of all threads, user and system; sysconf(_SC_CLK_TCK) a second
  std::uint64_t minor_faults = 0;
  std::uint64_t major_faults = 0;
  std::uint64_t io_bytes = 0;  // that went through read, write and their kind
  bool is_runnable = false;    // a thread runs, or wants to and gets no processor
  // So long its threads have wanted to run and got no processor: see RunQueueSample.
  std::optional<std::chrono::nanoseconds> waited = std::nullopt;

  friend bool operator==(const ProcessCounters&, const ProcessCounters&) = default;
};

// All processes of a rank, the TCP connections that they hold, and what it has printed, at one moment.
struct ActivitySample {
  std::vector<ProcessCounters> processes;
  std::vector<net::TcpBytes> connections;  // without those to the job's store
  std::uint64_t output_bytes = 0;
  std::optional<GpuSample> gpu;  // nothing: there is none, or it could not be read
  // False if something could not be read: the kernel tells of no connections, a process belongs to another user or is
  // in another network, a GPU does not answer, or time ran out. What is missing may be a sign of life.
  bool is_complete = false;
  std::uint64_t handed_on = 0;  // pieces of data, to ranks of the same node through shared memory
};

// The text of /proc/PID/stat, without `io_bytes` and what follows it. Nothing if it is no such text.
std::optional<ProcessCounters> parse_process_counters(std::string_view stat);

// What these processes have done; those that are gone are left out. Reads some files a process, and one a thread, and
// ends at `until`. `connections`: all of this node, of which those from and to `store_port` are left out.
ActivitySample read_activity(std::span<const pid_t> processes,
                             const std::optional<std::vector<net::TcpBytes>>& connections, std::uint16_t store_port,
                             std::chrono::steady_clock::time_point until);

}  // namespace ddp::launcher
