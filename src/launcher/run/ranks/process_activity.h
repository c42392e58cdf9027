// Represents the activity of a rank's processes so far, as the kernel counts it. ActivityMeter compares such samples.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "launcher/run/process/gpu_counters.h"
#include "net/tcp_bytes.h"

namespace ddp::launcher {

// Represents one process. The numbers only grow, and include those of children that the process has reaped.
struct ProcessCounters {
  pid_t pid = 0;
  std::uint64_t started = 0;    // clock ticks after the node's start; unique together with the pid
  std::uint64_t cpu_ticks = 0;  // time of all threads, user and system; sysconf(_SC_CLK_TCK) ticks per second
  std::uint64_t minor_faults = 0;
  std::uint64_t major_faults = 0;
  std::uint64_t io_bytes = 0;  // bytes that went through read(), write() and similar calls
  bool is_runnable = false;    // a thread runs, or wants to run and gets no processor
  // This is how long its threads have wanted to run and got no processor (see RunQueueSample).
  std::optional<std::chrono::nanoseconds> waited = std::nullopt;

  friend bool operator==(const ProcessCounters&, const ProcessCounters&) = default;
};

// Represents all processes of a rank, their TCP connections, and the amount of its output, at one moment.
struct ActivitySample {
  std::vector<ProcessCounters> processes;
  std::vector<net::TcpBytes> connections;  // all except those to the job's store
  std::vector<std::uint64_t> of_program;   // inodes of those that the first process holds, sorted
  std::uint64_t output_bytes = 0;
  std::optional<GpuSample> gpu;  // std::nullopt if there is none, or if it could not be read
  // This is false if something could not be read, because that may be a sign of life. The kernel may show no
  // connections, a process may belong to another user or network, a GPU may not answer, or time may run out.
  bool is_complete = false;
  std::uint64_t handed_on = 0;  // pieces of data passed to ranks of the same node through shared memory
  // Bytes over TCP to and from other ranks of this node, and those of the first process to and from other nodes.
  std::uint64_t peer_bytes = 0;
  std::uint64_t far_bytes = 0;
};

// Sets `peer_bytes` and `far_bytes` of the samples of this node's ranks. `connections` contains all connections of this
// node. A connection between two processes of one rank belongs to neither.
void find_peers(std::span<ActivitySample> ranks, std::span<const net::TcpBytes> connections);

// Returns the activity of these processes. Processes that are gone are left out. Reads some files per process and per
// thread, and ends at `until`. `connections` contains all connections of this node. Those from and to `store_port` are
// left out.
ActivitySample read_activity(std::span<const pid_t> processes,
                             const std::optional<std::vector<net::TcpBytes>>& connections, std::uint16_t store_port,
                             std::chrono::steady_clock::time_point until);

}  // namespace ddp::launcher
