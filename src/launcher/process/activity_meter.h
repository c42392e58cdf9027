// ActivityMeter: for how long the processes of a rank have shown no sign of life. Samples in, an age for each sign out;
// no clock, no files. docs/development/decisions/0026-three-classes-of-hangs.md says why these signs, and why these
// thresholds.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "launcher/process/process_activity.h"

namespace ddp::launcher {

enum class Sign : std::uint8_t { none, output, processes, processor, runnable, faults, io, network, gpu };

std::string_view name_of(Sign sign);   // "processor", as the event log has it
std::string_view describe(Sign sign);  // "it uses a processor"; of `none`: "it shows no sign of life"

// Of one rank. The ages grow by whole windows, from the first sample after the job has last gone on.
struct RankActivity {
  std::chrono::nanoseconds still_for{0};  // no sign of life for so long
  std::chrono::nanoseconds unmoved_for{
      0};                        // no data over TCP, through shared memory, or to or from its GPU, for so long
  bool is_complete = false;      // all signs could be read
  Sign last_sign = Sign::none;   // of the last window that is over
  double cpu_share = 0;          // of one processor, in the window that has begun
  bool counts_gpu_data = false;  // what moves to and from its GPU is in `unmoved_for`

  friend bool operator==(const RankActivity&, const RankActivity&) = default;
};

// What counts as a sign of life in a window. What watchdog and monitor threads do lies below.
struct ActivityThresholds {
  std::chrono::nanoseconds window = std::chrono::seconds(5);
  // Two samples that are further apart than this say nothing about the time between: the job went on, or nobody looked.
  // On a busy machine some samples are late or left out.
  std::chrono::nanoseconds longest_gap = std::chrono::seconds(20);
  double cpu_share = 0.01;     // of one processor
  double waiting_share = 0.1;  // of the window, for a processor; or runnable in each sample
  int runnable_samples = 2;    // where the kernel does not count that: of five; of three or fewer one is enough
  std::uint64_t minor_faults = 100;
  std::uint64_t major_faults = 1;
  std::uint64_t io_bytes = 4096;
  std::uint64_t network_bytes = 1024;
  int gpu_busy_percent = 1;                          // in one sample
  std::uint64_t gpu_bytes = std::uint64_t{1} << 20;  // a driver that is asked, and a GPU that polls, move some, too
};

class ActivityMeter {
 public:
  explicit ActivityMeter(const ActivityThresholds& thresholds = {}) : thresholds_(thresholds) {}

  // `now`: of a clock that only grows. About one sample a second is wanted.
  void add(const ActivitySample& sample, std::chrono::nanoseconds now);

  // The window that has begun is measured anew: its processes were made to work (a dump of stacks). The ages stay.
  void discard_window() { window_.reset(); }

  // Nothing before there are two samples.
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
  std::chrono::nanoseconds seen_{0};  // the last sample
  std::optional<RankActivity> activity_;
};

}  // namespace ddp::launcher
