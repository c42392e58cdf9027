// UsageMeter computes what the processes of a rank use from samples of the kernel's counters. It is pure.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "launcher/ranks/rank_view.h"

namespace ddp::launcher {

// Represents one process at one moment.
struct ProcessUsage {
  pid_t pid = 0;
  std::uint64_t started = 0;    // clock ticks after the node's start; unique together with the pid
  std::uint64_t cpu_ticks = 0;  // time of its own threads, user and system; without that of its children
  std::uint64_t rss_bytes = 0;  // includes memory that it shares with other processes

  friend bool operator==(const ProcessUsage&, const ProcessUsage&) = default;
};

// Returns the usage of these processes, without those that are gone. Reads one file per process.
std::vector<ProcessUsage> sample_usage(std::span<const pid_t> processes);

class UsageMeter {
 public:
  // Adds a sample of all processes of the rank. `now` is the time of a clock that only grows.
  void add(std::vector<ProcessUsage> processes, std::chrono::nanoseconds now);
  // Adds the number of bytes that the rank has printed so far. `now` is CLOCK_MONOTONIC in nanoseconds.
  void add_output(std::uint64_t bytes, std::uint64_t now);
  void set_gpu(std::optional<double> use, std::optional<std::uint64_t> memory_bytes) {
    usage_.gpu_use = use;
    usage_.gpu_memory_bytes = memory_bytes;
  }
  // The rank has ended. What is known of its output stays.
  void end();

  const RankUsage& usage() const { return usage_; }

 private:
  std::vector<ProcessUsage> before_;
  std::optional<std::chrono::nanoseconds> seen_;
  RankUsage usage_;
};

}  // namespace ddp::launcher
