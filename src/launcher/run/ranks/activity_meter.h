// ActivityMeter measures for how long the processes of a rank have shown no sign of life. It turns samples into ages,
// and reads neither clocks nor files. docs/development/decisions/0026-three-classes-of-hangs.md explains these signs
// and these thresholds.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "launcher/run/ranks/process_activity.h"
#include "launcher/run/ranks/rank_activity.h"

namespace ddp::launcher {

// Defines what counts as a sign of life in a window. The activity of watchdog and monitor threads is below these
// thresholds.
struct ActivityThresholds {
  std::chrono::nanoseconds window = std::chrono::seconds(5);
  // Two samples that are further apart than this say nothing about the time between them: the job made progress, or no
  // sample was wanted. On a busy node, some samples are late or missing.
  std::chrono::nanoseconds longest_gap = std::chrono::seconds(20);
  double cpu_share = 0.01;  // share of one processor
  // This is the share of the window in which threads wait for a processor. A thread that is runnable in each sample
  // counts as well.
  double waiting_share = 0.1;
  // If the kernel does not count waits, a thread must be runnable in this many of five samples. Of three or fewer
  // samples, one is enough.
  int runnable_samples = 2;
  std::uint64_t minor_faults = 100;
  std::uint64_t major_faults = 1;
  std::uint64_t io_bytes = 4096;
  std::uint64_t network_bytes = 1024;
  int gpu_busy_percent = 1;                          // percentage in one sample
  std::uint64_t gpu_bytes = std::uint64_t{1} << 20;  // driver requests and polling GPUs move some bytes, too
};

class ActivityMeter {
 public:
  explicit ActivityMeter(const ActivityThresholds& thresholds = {}) : thresholds_(thresholds) {}

  // `now` is the time of a clock that only grows. Call this about once per second.
  void add(const ActivitySample& sample, std::chrono::nanoseconds now);

  // Begins the current window again, because its processes were made to work (by a dump of stacks). The ages stay.
  void discard_window() { window_.reset(); }

  // Returns std::nullopt until there are two samples.
  std::optional<RankActivity> activity() const { return activity_; }

 private:
  struct Window {
    ActivitySample first;
    std::chrono::nanoseconds began{0};
    int samples = 0;
    int runnable_samples = 0;
    bool gpu_was_busy = false;
  };
  struct Difference;
  static Difference difference(const ActivitySample& before, const ActivitySample& now);
  bool wants_to_run(const Difference& done, std::chrono::nanoseconds length) const;
  Sign sign_in(const Difference& done, double cpu_share, std::chrono::nanoseconds length) const;

  const ActivityThresholds thresholds_;
  std::optional<Window> window_;
  std::chrono::nanoseconds seen_{0};  // time of the last sample
  std::uint64_t peer_bytes_ = 0;      // in the last sample
  std::optional<RankActivity> activity_;
};

}  // namespace ddp::launcher
