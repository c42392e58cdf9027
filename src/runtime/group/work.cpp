#include <ddp/work.h>

#include "runtime/group/operation_queue.h"

namespace ddp {

using namespace internal;

Work::Work(std::shared_ptr<WorkState> state) : state_(std::move(state)) {}
Work::Work(Work&&) noexcept = default;
Work& Work::operator=(Work&&) noexcept = default;
Work::~Work() = default;

void Work::wait() {
  state_->queue_->wait(*state_);
  // Not done: a stream waits for it.
  if (state_->done()) state_->check();
}

bool Work::wait_for(std::chrono::nanoseconds limit) {
  if (!state_->done() && !state_->queue_->wait_for(*state_, limit)) return false;
  state_->check();
  return true;
}

bool Work::done() const {
  if (!state_->done()) state_->queue_->attend();
  return state_->done();
}

void Work::then(std::function<void(const Error*)> continuation) {
  state_->queue_->then(*state_, std::move(continuation));
}

}  // namespace ddp
