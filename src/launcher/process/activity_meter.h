// ActivityMeter measures for how long the processes of a rank have shown no sign of life. It turns samples into ages,
// and reads neither clocks nor files. docs/development/decisions/0026-three-classes-of-hangs.md explains these signs
// and these thresholds.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "launcher/process/process_activity.h"

namespace ddp::launcher {

enum class Sign : std::uint8_t { none, output, processes, processor, runnable, faults, io, network, gpu };

std::string_view name_of(Sign sign);   // for example "processor", as in the event log
std::string_view describe(Sign sign);  // for example "it uses a processor"; for `none`, "it shows no sign of life"

// Describes the activity of one rank. The ages grow by whole windows, from the first sample after the job last made
// progress.
struct RankActivity {
  std::chrono::nanoseconds still_for{0};    // time without a sign of life
  std::chrono::nanoseconds unmoved_for{0};  // time without data over TCP, shared memory, or to or from its GPU
  bool is_complete = false;                 // all signs could be read
  Sign last_sign = Sign::none;              // the sign in the last complete window
  double cpu_share = 0;                     // share of one processor in the current window
  bool counts_gpu_data = false;             // `unmoved_for` includes data to and from its GPU
  // Time since it last exchanged data with another rank over TCP. std::nullopt if no exchange was seen.
  std::optional<std::chrono::nanoseconds> exchanged_ago = std::nullopt;

  friend bool operator==(const RankActivity&, const RankActivity&) = default;
};

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
