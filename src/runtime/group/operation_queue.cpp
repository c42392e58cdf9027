#include "runtime/group/operation_queue.h"

#include <ddp/error.h>

#include <exception>

#include "base/limits.h"

namespace ddp {

std::shared_ptr<WorkState> QueueState::push(Call call) {
  auto work = std::make_shared<WorkState>(shared_from_this());
  Lock lock(mutex_);
  call.sequence = next_sequence_++;
  waiting_.push_back({std::move(call), work, false, std::chrono::steady_clock::now()});
  if (holds_ > 0) return work;
  if (waiting_.size() == 1 && !driven_) {
    begin_front(lock);
  } else {
    wake_thread();
  }
  return work;
}

// Nobody needs to hurry with an operation that has begun, or with none.
void QueueState::begin_front(Lock& lock) {
  driven_ = true;
  const Call& call = waiting_.front().call;  // a deque's elements stay where they are
  const bool may_run = obstacle(waiting_.front()).empty();
  lock.unlock();
  bool begun = false;
  std::exception_ptr failure;
  Error error(ErrorKind::internal, "");
  try {
    begun = may_run && runner_->begin(call);
  } catch (const Error& caught) {
    error = caught;
    failure = std::current_exception();
  }
  lock.lock();
  waiting_.front().begun = begun;
  if (failure) {
    Entry entry = std::move(waiting_.front());
    waiting_.pop_front();
    broken_by_ = error.what();
    complete(entry, failure, &error, lock);
  }
  driven_ = false;
  if (!begun || waiting_.size() > 1 || !closed_by_.empty()) wake_thread();
}

void QueueState::wake_thread() {
  if (waiting_.empty() && closed_by_.empty()) return;
  needs_thread_ = true;
  const bool can_be_left = thread_looks_ && waits_promptly() && waiting_.size() <= 1 && closed_by_.empty();
  if (thread_asleep_ && !can_be_left) attention_.notify_one();
}

std::string QueueState::obstacle(const Entry& entry) const {
  if (!broken_by_.empty()) return "this failed before it: " + broken_by_;
  return entry.begun ? "" : closed_by_;
}

void QueueState::run_front(Lock& lock) {
  driven_ = true;
  Entry entry = std::move(waiting_.front());
  waiting_.pop_front();
  const std::string reason = obstacle(entry);
  lock.unlock();
  std::exception_ptr failure;
  Error error(ErrorKind::internal, "");
  if (!reason.empty()) {
    error = Error(ErrorKind::aborted, runner_->describe(entry.call) + ": not run, because " + reason);
    failure = std::make_exception_ptr(error);
  } else {
    try {
      runner_->run(entry.call);
    } catch (const Error& caught) {
      error = caught;
      failure = std::current_exception();
    } catch (const std::exception& caught) {
      error = Error(ErrorKind::internal, runner_->describe(entry.call) + ": " + caught.what());
      failure = std::make_exception_ptr(error);
    }
  }
  lock.lock();
  if (failure && broken_by_.empty()) broken_by_ = error.what();
  complete(entry, failure, &error, lock);
  driven_ = false;
  wake_thread();
}

void QueueState::complete(Entry& entry, std::exception_ptr failure, const Error* error, Lock& lock) {
  WorkState& work = *entry.work;
  // Those that come while continuations run find done() only afterwards, and add themselves.
  while (!work.continuations_.empty()) {
    const auto continuations = std::exchange(work.continuations_, {});
    lock.unlock();
    for (const auto& continuation : continuations) continuation(failure ? error : nullptr);
    lock.lock();
  }
  work.failure_ = std::move(failure);
  work.done_.store(true, std::memory_order_release);
  progress_.notify_all();
}

void QueueState::wait(WorkState& work) {
  if (work.done()) return;
  Lock lock(mutex_);
  while (!work.done()) {
    if (holds_ > 0 && holder_ == std::this_thread::get_id()) {
      throw Error(ErrorKind::invalid_argument,
                  "wait for an operation between group_start and group_end: it begins only "
                  "at group_end");
    }
    if (!driven_ && holds_ == 0 && !waiting_.empty()) {
      const bool prompt = std::chrono::steady_clock::now() - waiting_.front().called < limits::kPromptWait;
      prompt_waits_ = prompt ? prompt_waits_ + 1 : 0;
      run_front(lock);
    } else {
      progress_.wait(lock);
    }
  }
}

bool QueueState::wait_for(WorkState& work, std::chrono::nanoseconds limit) {
  attend();
  Lock lock(mutex_);
  return progress_.wait_for(lock, limit, [&] { return work.done(); });
}

void QueueState::attend() {
  const Lock lock(mutex_);
  prompt_waits_ = 0;
  if (!driven_ && holds_ == 0) wake_thread();
}

void QueueState::then(WorkState& work, std::function<void(const Error*)> continuation) {
  {
    const Lock lock(mutex_);
    if (!work.done()) {
      work.continuations_.push_back(std::move(continuation));
      prompt_waits_ = 0;
      if (!driven_ && holds_ == 0) wake_thread();
      return;
    }
  }
  if (!work.failure_) return continuation(nullptr);
  try {
    std::rethrow_exception(work.failure_);
  } catch (const Error& error) {
    continuation(&error);
  }
}

void QueueState::hold() {
  const Lock lock(mutex_);
  ++holds_;
  holder_ = std::this_thread::get_id();
}

void QueueState::release() {
  Lock lock(mutex_);
  if (holds_ == 0 || --holds_ > 0) return;
  if (waiting_.empty() || driven_) return;
  begin_front(lock);
  progress_.notify_all();  // whoever waited for a held operation may run it now
}

void QueueState::close(const std::string& reason) {
  const Lock lock(mutex_);
  if (closed_by_.empty()) closed_by_ = reason;
  holds_ = 0;
  wake_thread();
  progress_.notify_all();
}

bool QueueState::idle_within(std::chrono::nanoseconds limit) {
  Lock lock(mutex_);
  return progress_.wait_for(lock, limit, [this] { return !driven_ && waiting_.empty(); });
}

void QueueState::serve() {
  Lock lock(mutex_);
  int idle_looks = 0;
  while (true) {
    if (!driven_ && waiting_.empty() && !closed_by_.empty()) return;
    if (needs_thread_ && !driven_ && holds_ == 0 && !waiting_.empty()) {
      idle_looks = 0;
      prompt_waits_ = 0;
      run_front(lock);
      continue;
    }
    needs_thread_ = false;
    thread_asleep_ = true;
    thread_looks_ = waits_promptly() && (++idle_looks < limits::kQueueIdleLooks || !waiting_.empty());
    if (!thread_looks_) {
      idle_looks = 0;
      attention_.wait(lock);
    } else if (attention_.wait_for(lock, limits::kQueueLook) == std::cv_status::timeout) {
      const bool left_alone = !waiting_.empty() && !waiting_.front().begun &&
                              std::chrono::steady_clock::now() - waiting_.front().called >= limits::kQueueLook / 2;
      needs_thread_ = left_alone;
    }
    thread_asleep_ = false;
  }
}

OperationQueue::OperationQueue(std::shared_ptr<CallRunner> runner)
    : state_(std::make_shared<QueueState>(std::move(runner))), thread_([state = state_] { state->serve(); }) {}

OperationQueue::~OperationQueue() {
  state_->close("the process group was destroyed");
  if (std::uncaught_exceptions() > 0 && !state_->idle_within(limits::kUnwindingWait)) {
    thread_.detach();
    return;
  }
  thread_.join();
}

}  // namespace ddp
