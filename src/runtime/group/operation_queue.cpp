#include "runtime/group/operation_queue.h"

#include <ddp/error.h>

#include "runtime/group/work_state.h"

namespace ddp {

OperationQueue::OperationQueue() : thread_([this] { run(); }) {}

OperationQueue::~OperationQueue() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Work OperationQueue::push(std::string description, std::function<void()> run) {
  auto state = std::make_shared<WorkState>();
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back({std::move(description), std::move(run), state});
  }
  changed_.notify_one();
  return Work(std::move(state));
}

void OperationQueue::run() {
  while (true) {
    Operation operation;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return closing_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      if (closing_ && broken_by_.empty()) broken_by_ = "the process group was destroyed";
      operation = std::move(waiting_.front());
      waiting_.pop_front();
    }
    execute(operation);
  }
}

void OperationQueue::execute(Operation& operation) {
  const auto fail = [&](ErrorKind kind, const std::string& reason) {
    operation.state->complete(std::make_exception_ptr(Error(kind, operation.description + ": " + reason)));
  };
  if (!broken_by_.empty()) return fail(ErrorKind::aborted, "not run, because before it " + broken_by_);
  try {
    operation.run();
    operation.state->complete(nullptr);
  } catch (const Error& error) {
    broken_by_ = operation.description + " failed: " + error.what();
    fail(error.kind(), error.what());
  } catch (const std::exception& error) {
    broken_by_ = operation.description + " failed: " + error.what();
    fail(ErrorKind::internal, error.what());
  }
}

}  // namespace ddp
