// RankTimes says since when a rank has done what it does now. It is a value: RankBook updates it with each sample.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

#include "launcher/run/ranks/job_clock.h"
#include "launcher/run/ranks/rank_view.h"

namespace ddp::launcher {

// A state of a rank that short interruptions do not end, up to limits::kPollingPause each.
class LastingState {
 public:
  void set(bool holds, JobTime now);
  bool holds() const { return holds_; }
  // Returns when it began, or `now` if it does not hold.
  JobTime since(JobTime now) const { return lasts(now) ? *since_ : now; }

 private:
  bool lasts(JobTime now) const;

  bool holds_ = false;
  JobTime interrupted_{};
  std::optional<JobTime> since_;  // std::nullopt if it never held
};

class RankTimes {
 public:
  // `has_progress` says that the page shows progress since the last call.
  void add(const RankView& rank, bool has_progress, JobTime now);

  JobTime progress_at() const { return progress_at_; }
  // Returns when the rank last showed a sign of life, and when it last moved data. Neither is earlier than
  // progress_at().
  JobTime sign_at() const { return sign_at_; }
  JobTime data_at() const { return data_at_; }
  // Returns when it last exchanged data with another rank. That is the progress of a PyTorch program on Gloo, because
  // PyTorch records no sends and receives. Returns progress_at() for any other program.
  JobTime exchange_at() const { return uses_gloo_ ? std::max(progress_at_, exchanged_at_) : progress_at_; }
  bool waits() const { return waiting_threads_ > 0; }  // for an operation
  // Returns since when the rank may have been waiting, for any operations. A thread may wait with a time-out again and
  // again.
  JobTime may_wait_since(JobTime now) const { return may_wait_.since(now); }
  // Returns whether a wait has just ended. The rank may wait again soon.
  bool pauses() const { return waiting_threads_ < settled_threads_ && waits_since_ < free_since_; }
  // Returns since when the rank has done what it does now: wait with that many threads, not wait, or be gone. The time
  // between two waits does not count.
  JobTime settled_since() const {
    if (ended_at_) return *ended_at_;
    return waiting_threads_ > 0 && !pauses() ? waits_since_ : free_since_;
  }
  std::optional<JobTime> ended_at() const { return ended_at_; }
  // Returns since when the first thread of a PyTorch program on Gloo has done nothing but wait.
  JobTime here_since(JobTime now) const { return is_elsewhere_ ? now : here_since_; }

 private:
  void follow_waits(int waiting_threads, JobTime now);

  JobTime progress_at_{};
  JobTime sign_at_{};
  JobTime data_at_{};
  JobTime exchanged_at_ = JobTime::min();
  LastingState may_wait_;
  bool uses_gloo_ = false;
  bool is_elsewhere_ = false;
  JobTime here_since_{};
  std::optional<JobTime> ended_at_;
  int continuations_ = 0;
  int waiting_threads_ = 0;
  int settled_threads_ = 0;  // threads that wait, if those that have just stopped wait again soon
  JobTime waits_since_{};    // later by the pauses between the waits, which are up to limits::kPollingPause each
  JobTime free_since_{};     // when a thread last stopped waiting
};

}  // namespace ddp::launcher
