#include <ddp/work.h>

#include "runtime/group/work_state.h"

namespace ddp {

Work::Work(std::shared_ptr<WorkState> state) : state_(std::move(state)) {}
Work::Work(Work&&) noexcept = default;
Work& Work::operator=(Work&&) noexcept = default;
Work::~Work() = default;

void Work::wait() {
  state_->wait();
}
bool Work::done() const {
  return state_->done();
}

}  // namespace ddp
