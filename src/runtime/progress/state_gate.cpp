#include "runtime/progress/state_gate.h"

#include <utility>

namespace ddp::internal {

StateGate& StateGate::of_process() {
  static StateGate* const gate = new StateGate;  // threads use it until the process ends
  return *gate;
}

void StateGate::begin_change(Stream stream) {
  std::unique_lock lock(mutex_);
  if (!keep_) return;
  if (state_ != State::changing) {
    changed_.wait(lock, [this] { return state_ == State::idle; });
    state_ = State::changing;
  }
  if (!stream || !of_gpu_.changes) return;
  const std::function<void(Stream)> changes = of_gpu_.changes;
  lock.unlock();
  changes(stream);
}

bool StateGate::is_changing() {
  const std::lock_guard lock(mutex_);
  return state_ == State::changing;
}

bool StateGate::end_change() {
  const std::lock_guard lock(mutex_);
  if (state_ != State::changing) return false;
  state_ = State::idle;
  changed_.notify_all();
  return true;
}

bool StateGate::try_copy(std::chrono::milliseconds patience, const std::function<bool()>& is_needless,
                         const std::function<void()>& copy) {
  constexpr std::chrono::milliseconds kPoll{20};
  const auto until = std::chrono::steady_clock::now() + patience;
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kPoll, [this] { return state_ == State::idle; })) {
    lock.unlock();
    if (is_needless() || std::chrono::steady_clock::now() >= until) return false;
    lock.lock();
  }
  state_ = State::copying;
  lock.unlock();
  copy();
  lock.lock();
  state_ = State::idle;
  changed_.notify_all();
  return true;
}

void StateGate::set_keeper(std::function<void()> keep, GpuKeeper of_gpu) {
  const std::lock_guard lock(mutex_);
  keep_ = std::move(keep);
  of_gpu_ = std::move(of_gpu);
  if (!keep_ && state_ == State::changing) state_ = State::idle;
}

void StateGate::before_failure() {
  std::unique_lock lock(mutex_);
  if (!keep_ || state_ == State::changing) return;
  const std::function<void()> keep = keep_;
  lock.unlock();
  keep();
}

void StateGate::before_abort() {
  std::unique_lock lock(mutex_);
  const std::function<void()> before_abort = of_gpu_.before_abort;
  lock.unlock();
  if (before_abort) before_abort();
}

}  // namespace ddp::internal
