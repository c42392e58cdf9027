#include "runtime/group/operation_queue.h"

#include <ddp/error.h>

#include <exception>

#include "base/limits.h"
#include "runtime/group/work_state.h"

namespace ddp {

OperationQueue::OperationQueue() : state_(std::make_shared<State>()), thread_([state = state_] { state->run(); }) {}

OperationQueue::~OperationQueue() {
  std::unique_lock lock(state_->mutex);
  state_->closing = true;
  state_->changed.notify_all();
  if (std::uncaught_exceptions() > 0 &&
      !state_->changed.wait_for(lock, limits::kUnwindingWait, [this] { return state_->ended; })) {
    thread_.detach();
    return;
  }
  lock.unlock();
  thread_.join();
}

Work OperationQueue::push(std::string description, std::function<void()> run) {
  auto work = std::make_shared<WorkState>();
  {
    const std::lock_guard lock(state_->mutex);
    state_->waiting.push_back({std::move(description), std::move(run), work});
  }
  state_->changed.notify_all();
  return Work(std::move(work));
}

void OperationQueue::State::run() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [this] { return closing || !waiting.empty(); });
    if (waiting.empty()) break;
    if (closing && broken_by.empty()) broken_by = "the process group was destroyed";
    {
      Operation operation = std::move(waiting.front());
      waiting.pop_front();
      lock.unlock();
      execute(operation);
    }
    lock.lock();
  }
  ended = true;
  changed.notify_all();
}

void OperationQueue::State::execute(Operation& operation) {
  const auto fail = [&](ErrorKind kind, const std::string& reason) {
    operation.state->complete(std::make_exception_ptr(Error(kind, operation.description + ": " + reason)));
  };
  if (!broken_by.empty()) return fail(ErrorKind::aborted, "not run, because before it " + broken_by);
  try {
    operation.run();
    operation.state->complete(nullptr);
  } catch (const Error& error) {
    broken_by = operation.description + " failed: " + error.what();
    fail(error.kind(), error.what());
  } catch (const std::exception& error) {
    broken_by = operation.description + " failed: " + error.what();
    fail(ErrorKind::internal, error.what());
  }
}

}  // namespace ddp
