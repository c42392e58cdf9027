// UsageWatch measures what the processes of this node's ranks use, for the views of a job. No judgement of hangs uses
// it: ActivityWatch measures for these.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launcher/limits.h"
#include "launcher/run/process/process_host.h"
#include "launcher/run/ranks/activity_watch.h"
#include "launcher/run/ranks/rank_view.h"

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

// Computes what the processes of a rank use from such samples. It is pure.
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

// Used only from the event loop's thread.
class UsageWatch {
 public:
  // `output_bytes` returns how many bytes the rank with this local rank has printed so far.
  // `gpus` must outlive this object.
  UsageWatch(ProcessHost& processes, GpuWatch& gpus, int first_rank,
             std::function<std::uint64_t(int local_rank)> output_bytes)
      : processes_(processes), gpus_(gpus), first_rank_(first_rank), output_bytes_(std::move(output_bytes)) {}

  // Measures each rank about once per second, and fills in RankView::usage. A call takes at most `most`. The next call
  // continues with the ranks for which that is too short. `now` is CLOCK_MONOTONIC in nanoseconds. Returns whether
  // anything was measured.
  bool measure(std::span<RankView> ranks, std::uint64_t now, std::chrono::nanoseconds most = limits::kUsageTime);

 private:
  using Clock = std::chrono::steady_clock;
  struct Rank {
    UsageMeter meter;
    std::vector<pid_t> processes;
    std::uint64_t searched_at = 0;  // when `processes` were found
    std::uint64_t measured_at = 0;
  };

  void measure(Rank& rank, const RankView& view, std::uint64_t now);

  ProcessHost& processes_;
  GpuWatch& gpus_;
  const int first_rank_;
  const std::function<std::uint64_t(int local_rank)> output_bytes_;
  std::map<int, Rank> ranks_;  // by local rank
  std::size_t next_ = 0;       // index of the rank to begin with, so that each rank gets a turn
};

}  // namespace ddp::launcher
