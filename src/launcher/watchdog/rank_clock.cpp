#include "launcher/watchdog/rank_clock.h"

#include <algorithm>
#include <utility>

#include "launcher/limits.h"

namespace ddp::launcher {

void RankClock::advance(Nanoseconds elapsed) {
  age_ += elapsed;
  still_ += elapsed;
  unmoved_ += elapsed;
  if (exchanged_) *exchanged_ += elapsed;
  here_ = is_elsewhere_ ? Nanoseconds(0) : here_ + elapsed;
  if (has_ended_) ended_for_ += elapsed;
  between_ = may_wait_ ? Nanoseconds(0) : between_ + elapsed;
  const bool goes_on = may_wait_ || (waited_.count() > 0 && between_ <= limits::kPollingPause);
  waited_ = goes_on ? waited_ + elapsed : Nanoseconds(0);
  const bool waits = waiting_threads_ > 0 && waiting_threads_ >= settled_threads_;
  free_ = waits ? Nanoseconds(0) : free_ + elapsed;
  if (waits) waiting_ += elapsed;
  if (free_ <= limits::kPollingPause) return;
  waiting_ = Nanoseconds(0);
  settled_threads_ = waiting_threads_;
}

bool RankClock::add_sample(const RankView& rank, Nanoseconds elapsed) {
  advance(elapsed);
  const bool has_changed = seen_ != rank.page;
  if (has_changed) {
    seen_ = rank.page;
    age_ = still_ = unmoved_ = Nanoseconds(0);
  }
  has_ended_ = rank.has_ended;
  uses_gloo_ = rank.is_torch && !uses_gpu(rank);  // threads of NCCL exchange data without the program
  const bool was_elsewhere = std::exchange(is_elsewhere_, rank.is_elsewhere && uses_gloo_);
  if (is_elsewhere_) here_ = Nanoseconds(0);
  if (was_elsewhere && !is_elsewhere_) here_ = limits::kStackRest;  // that long it has rested
  // Code of the program began or ended.
  if (std::exchange(continuations_, rank.page.continuations) != rank.page.continuations) still_ = Nanoseconds(0);
  // What a continuation of the program does is no wait.
  waiting_threads_ = rank.has_ended || rank.page.continuations > 0 ? 0 : rank.page.waiting_threads;
  if (waiting_threads_ > settled_threads_) {
    settled_threads_ = waiting_threads_;
    waiting_ = Nanoseconds(0);
  }
  may_wait_ = !rank.has_ended && may_wait(rank);
  if (rank.activity) {
    still_ = std::min(still_, rank.activity->still_for);
    unmoved_ = std::min(unmoved_, rank.activity->unmoved_for);
    if (const auto ago = rank.activity->exchanged_ago) exchanged_ = exchanged_ ? std::min(*exchanged_, *ago) : ago;
  }
  return has_changed;
}

}  // namespace ddp::launcher
