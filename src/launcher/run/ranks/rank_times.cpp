#include "launcher/run/ranks/rank_times.h"

#include <algorithm>
#include <utility>

#include "launcher/limits.h"
#include "launcher/run/ranks/waits.h"

namespace ddp::launcher {

bool LastingState::lasts(JobTime now) const {
  return since_ && (holds_ || now - interrupted_ <= limits::kPollingPause);
}

void LastingState::set(bool holds, JobTime now) {
  if (holds && !lasts(now)) since_ = now;
  if (holds_ && !holds) interrupted_ = now;
  holds_ = holds;
}

// A wait that has ended goes on if as many threads wait again soon.
void RankTimes::follow_waits(int waiting_threads, JobTime now) {
  const auto waits = [this] { return waiting_threads_ > 0 && waiting_threads_ >= settled_threads_; };
  if (!waits() && now - free_since_ > limits::kPollingPause) {
    settled_threads_ = waiting_threads_;
    waits_since_ = waits() ? now : free_since_;
  }
  const bool has_waited = waits();
  waiting_threads_ = waiting_threads;
  if (waiting_threads_ > settled_threads_) {
    settled_threads_ = waiting_threads_;
    waits_since_ = now;
  } else if (!has_waited && waits()) {
    waits_since_ += now - free_since_;
  }
  if (has_waited && !waits()) free_since_ = now;
}

void RankTimes::add(const RankView& rank, bool has_progress, JobTime now) {
  if (has_progress) progress_at_ = sign_at_ = data_at_ = now;
  if (!rank.has_ended) {
    ended_at_.reset();
  } else if (!ended_at_) {
    ended_at_ = now;
  }
  uses_gloo_ = rank.is_torch && !uses_gpu(rank);  // threads of NCCL exchange data without the program
  const bool was_elsewhere = std::exchange(is_elsewhere_, rank.is_elsewhere && uses_gloo_);
  if (was_elsewhere && !is_elsewhere_) here_since_ = now - limits::kStackRest;  // that long it has rested
  // Code of the program began or ended.
  if (std::exchange(continuations_, rank.page.continuations) != rank.page.continuations) sign_at_ = now;
  // What a continuation of the program does is no wait.
  follow_waits(rank.has_ended || rank.page.continuations > 0 ? 0 : rank.page.waiting_threads, now);
  may_wait_.set(!rank.has_ended && may_wait(rank), now);
  if (rank.activity) {
    sign_at_ = std::max(sign_at_, now - rank.activity->still_for);
    data_at_ = std::max(data_at_, now - rank.activity->unmoved_for);
    if (const auto ago = rank.activity->exchanged_ago) exchanged_at_ = std::max(exchanged_at_, now - *ago);
  }
}

}  // namespace ddp::launcher
