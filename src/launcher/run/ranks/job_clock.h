// JobClock shows the job's own time. It stands still while the user has paused the job, while a rank is stopped, and
// while the node or the launcher is suspended. So code that compares two of its times need not know of these.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ratio>
#include <utility>

namespace ddp::launcher {

class JobClock {
 public:
  using rep = std::int64_t;
  using period = std::nano;
  using duration = std::chrono::nanoseconds;
  using time_point = std::chrono::time_point<JobClock>;  // since the beginning of the attempt
  static constexpr bool is_steady = true;

  // The caller passes time in steps. A longer step than `longest_step` counts as one of this length: the rest of it was
  // a suspension.
  explicit JobClock(duration longest_step = duration::max()) : longest_step_(longest_step) {}

  void pass(duration time) {
    if (!stands_still_) now_ += std::min(time, longest_step_);
  }
  // The same for callers that know the time of a clock that never stands still. when() is its time at a time of the
  // job, if the job's clock does not stand still until then.
  void pass_until(std::chrono::steady_clock::time_point now) { pass(now - std::exchange(seen_, now)); }
  std::chrono::steady_clock::time_point when(time_point time) const { return seen_ + (time - now_); }
  void set_standing_still(bool stands_still) { stands_still_ = stands_still; }
  bool stands_still() const { return stands_still_; }
  time_point now() const { return now_; }

 private:
  duration longest_step_;
  time_point now_{};
  std::chrono::steady_clock::time_point seen_{};
  bool stands_still_ = false;
};

using JobTime = JobClock::time_point;

}  // namespace ddp::launcher
