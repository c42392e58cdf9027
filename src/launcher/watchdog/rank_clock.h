// RankClock measures for how long a rank has done what it does now. It turns samples and durations into ages.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

#include "launcher/process/worker_page.h"
#include "launcher/watchdog/verdict.h"

namespace ddp::launcher {

class RankClock {
 public:
  using Nanoseconds = std::chrono::nanoseconds;

  // `elapsed` is the time since the last sample. Returns whether the rank has made progress.
  bool add_sample(const RankView& rank, Nanoseconds elapsed);
  // Has the effect of a sample in which nothing has changed.
  void advance(Nanoseconds elapsed);

  Nanoseconds age() const { return age_; }  // time since the last progress
  // The time without a sign of life, and the time without data that moved. Neither exceeds age() or the time that was
  // measured.
  Nanoseconds still() const { return still_; }
  Nanoseconds unmoved() const { return unmoved_; }
  bool waits() const { return waiting_threads_ > 0; }  // for an operation
  // Returns how long the rank may have been waiting, for any operations. Short times without a wait are included,
  // because a thread may wait with a time-out again and again.
  Nanoseconds waited() const { return waited_; }
  // Returns whether a wait has just ended. The rank may wait again soon.
  bool pauses() const { return waiting_threads_ < settled_threads_ && waiting_.count() > 0; }
  // Returns how long the rank has done what it does now: wait with that many threads, not wait, or be gone.
  Nanoseconds settled() const {
    if (has_ended_) return ended_for_;
    return waiting_threads_ > 0 && !pauses() ? waiting_ : free_;
  }
  Nanoseconds ended_for() const { return ended_for_; }
  // Returns how long the first thread of a PyTorch program has not done anything else than to wait.
  Nanoseconds here() const { return here_; }
  // Returns the time since the last progress. PyTorch records no sends and receives, so data that a rank exchanges with
  // other ranks is its progress. If a page shows no collectives, all data that it moves counts.
  Nanoseconds progress_age(const Verdict& verdict) const {
    if (verdict.is_by_stack) return std::min(age_, unmoved_);
    return exchanged_ && uses_gloo_ ? std::min(age_, *exchanged_) : age_;
  }

 private:
  PageView seen_;
  Nanoseconds age_{0};
  Nanoseconds still_{0};
  Nanoseconds unmoved_{0};
  int continuations_ = 0;
  int waiting_threads_ = 0;
  int settled_threads_ = 0;  // threads that wait, if those that have just stopped wait again soon
  bool may_wait_ = false;
  Nanoseconds waited_{0};
  Nanoseconds between_{0};                // time since the rank may last have been waiting
  Nanoseconds waiting_{0};                // sum of the waits that only pauses up to limits::kPollingPause separate
  Nanoseconds free_{0};                   // time since a thread last stopped waiting
  std::optional<Nanoseconds> exchanged_;  // time since it last exchanged data with another rank, if that was seen
  bool uses_gloo_ = false;
  bool is_elsewhere_ = false;
  Nanoseconds here_{0};
  bool has_ended_ = false;
  Nanoseconds ended_for_{0};
};

}  // namespace ddp::launcher
