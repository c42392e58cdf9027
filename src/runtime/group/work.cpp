#include <ddp/work.h>

#include <exception>
#include <utility>

#include "runtime/group/group_errors.h"
#include "runtime/group/operation_queue.h"

namespace ddp {

using namespace internal;

Work::Work(std::shared_ptr<WorkState> state) : state_(std::move(state)), exceptions_(std::uncaught_exceptions()) {}
Work::Work(Work&&) noexcept = default;

Work& Work::operator=(Work&& other) noexcept {
  Work before(std::exchange(state_, std::move(other.state_)));
  before.exceptions_ = std::exchange(exceptions_, other.exceptions_);
  return *this;
}

Work::~Work() {
  if (!state_ || state_->done() || std::uncaught_exceptions() <= exceptions_) return;
  state_->queue_->cancel(*state_);
}

WorkState& Work::state() const {
  if (!state_) throw empty_work_error();
  return *state_;
}

void Work::wait() {
  QueueState::refuse_in_continuation("Work::wait");
  WorkState& work = state();
  work.queue_->wait(work);
  // If it is not done, a stream waits for it.
  if (work.done()) work.check();
}

bool Work::wait_for(std::chrono::nanoseconds limit) {
  QueueState::refuse_in_continuation("Work::wait_for");
  WorkState& work = state();
  if (!work.done() && !work.queue_->wait_for(work, limit)) return false;
  work.check();
  return true;
}

bool Work::done() const {
  const WorkState& work = state();
  if (!work.done()) work.queue_->attend();
  return work.done();
}

void Work::then(std::function<void(const Error*)> continuation) {
  WorkState& work = state();
  work.queue_->then(work, std::move(continuation));
}

}  // namespace ddp
