#include "runtime/group/operation_queue.h"

#include <optional>
#include <utility>

#include "base/thread_name.h"
#include "runtime/group/group_errors.h"
#include "runtime/limits.h"
#include "runtime/progress/status_page.h"

namespace ddp::internal {

// Holds why an operation has failed, as an exception and as an error. Both are empty if it has not failed.
struct QueueState::Failure {
  std::exception_ptr exception;
  std::optional<Error> error;
};

namespace {

template <typename Action>
QueueState::Failure failure_of(const CallRunner& runner, const Call& call, Action&& action) {
  try {
    action();
    return {};
  } catch (const Error& caught) {
    return {std::current_exception(), caught};
  } catch (const std::exception& caught) {
    const OperationError reported(ErrorKind::internal, runner.describe(call) + ": " + caught.what(), Error::kNobody,
                                  runner.identify(call));
    return {std::make_exception_ptr(reported), reported};
  }
}

// Calls report(true), and report(false) at its end, to show that this thread waits.
template <typename Report>
class Waiting {
 public:
  explicit Waiting(Report report) : report_(std::move(report)) { report_(/*begins=*/true); }
  ~Waiting() { report_(/*begins=*/false); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  const Report report_;
};

// The number of continuations that this thread runs.
thread_local int continuations_here = 0;

// While it lives, this thread runs a continuation.
class ContinuationRuns {
 public:
  ContinuationRuns() { ++continuations_here; }
  ~ContinuationRuns() { --continuations_here; }
  ContinuationRuns(const ContinuationRuns&) = delete;
  ContinuationRuns& operator=(const ContinuationRuns&) = delete;
};

}  // namespace

std::shared_ptr<WorkState> QueueState::push(Call call) {
  Lock lock(mutex_);
  call.sequence = next_sequence_++;
  call.called_at = std::chrono::steady_clock::now();
  runner_->called(call);
  auto work = std::make_shared<WorkState>(shared_from_this(), std::move(call));
  work->batch_ = holds_ > 0 ? last_batch_ : ++last_batch_;
  waiting_.push_back(work);
  if (holds_ == 0) begin_next(lock);
  return work;
}

std::shared_ptr<WorkState> QueueState::skip(Call call) {
  auto work = std::make_shared<WorkState>(shared_from_this(), std::move(call));
  work->done_.store(true, std::memory_order_release);
  return work;
}

std::vector<const Call*> QueueState::next_to_begin() const {
  const BeginsAhead ahead = runner_->begins_ahead();
  const std::size_t unfinished = begun_ + (driven_ != nullptr ? 1 : 0);
  const bool has_room = unfinished <= ahead.always || (unfinished <= ahead.most && unfinished_bytes_ <= ahead.bytes);
  const bool must_come_first = driven_ != nullptr && !driven_->begun_;
  const bool may_begin = holds_ == 0 && !beginning_ && !must_come_first && broken_by_.empty() && closed_by_.empty() &&
                         has_room && (ahead.always > 0 || waiting_.size() == 1);
  if (!may_begin || begun_ == waiting_.size() || waiting_[begun_]->batch_ == refused_batch_) return {};
  return next_batch();
}

std::vector<const Call*> QueueState::next_batch() const {
  std::vector<const Call*> calls;
  for (std::size_t i = begun_; i < waiting_.size() && waiting_[i]->batch_ == waiting_[begun_]->batch_; ++i) {
    calls.push_back(&waiting_[i]->call_);
  }
  return calls;
}

void QueueState::mark_begun(WorkState& work) {
  work.begun_ = true;
  ++begun_;
  unfinished_bytes_ += subject_of(work.call_).bytes();
}

// If all operations have begun, the queue's thread need not run. But it watches an operation for which only a stream
// waits.
void QueueState::begin_next(Lock& lock) {
  std::vector<const Call*> calls = next_to_begin();
  bool watch = false;
  while (!calls.empty()) {
    beginning_ = true;
    lock.unlock();
    bool begun = false;
    const Failure failure = failure_of(*runner_, *calls.front(), [&] { begun = runner_->begin(calls); });
    lock.lock();
    beginning_ = false;
    for (std::size_t i = 0; begun && i < calls.size(); ++i) {
      WorkState& work = *waiting_[begun_];
      mark_begun(work);
      watch = watch || bool(work.call_.stream);
    }
    // Whether the operations of a refused batch begin must not depend on when begin() is tried.
    if (!begun) refused_batch_ = waiting_[begun_]->batch_;
    if (failure.error) {
      waiting_[begun_]->failure_ = failure.exception;
      if (broken_by_.empty()) broken_by_ = failure.error->what();
    }
    progress_.notify_all();
    // More operations may have been called meanwhile.
    calls = begun ? next_to_begin() : std::vector<const Call*>();
  }
  const bool all_begun = begun_ == waiting_.size();
  if (!all_begun || waiting_.size() > 1 || watch || !closed_by_.empty()) wake_thread();
}

void QueueState::wake_thread() {
  if (waiting_.empty() && closed_by_.empty()) return;
  needs_thread_ = true;
  const bool can_be_left = thread_polls_ && waits_promptly() && waiting_.size() <= 1 && closed_by_.empty();
  if (thread_asleep_ && !can_be_left) attention_.notify_one();
}

std::string QueueState::obstacle(const WorkState& work) const {
  if (work.canceled_) return closed_by_;
  if (!broken_by_.empty()) return earlier_failure_text(broken_by_);
  return work.begun_ ? "" : closed_by_;
}

bool QueueState::can_run_front() const {
  if (driven_ != nullptr || waiting_.empty()) return false;
  return waiting_.front()->begun_ || (holds_ == 0 && !beginning_);
}

// A batch that has not begun may have to wait for the other ranks before it can begin as a whole. If it cannot, its
// operations run one by one.
void QueueState::run_front(Lock& lock) {
  const bool is_batch = begun_ == 0 && waiting_.size() > 1 && waiting_[0]->batch_ == waiting_[1]->batch_;
  const std::vector<const Call*> batch = is_batch ? next_batch() : std::vector<const Call*>();
  const std::shared_ptr<WorkState> work = std::move(waiting_.front());
  waiting_.pop_front();
  driven_ = work.get();
  if (work->begun_) --begun_;
  bool has_begun_batch = false;
  const std::exception_ptr begin_failure = work->failure_;
  const std::string reason = begin_failure ? "" : obstacle(*work);
  lock.unlock();
  const Failure failure = failure_of(*runner_, work->call_, [&] {
    if (begin_failure) std::rethrow_exception(begin_failure);
    if (!reason.empty()) {
      throw not_run_error(runner_->describe(work->call_), reason, runner_->identify(work->call_));
    }
    has_begun_batch = !batch.empty() && runner_->begin_batch(batch);
    runner_->run(work->call_);
  });
  lock.lock();
  for (std::size_t i = 1; has_begun_batch && i < batch.size(); ++i) mark_begun(*waiting_[begun_]);
  if (failure.error && broken_by_.empty()) broken_by_ = failure.error->what();
  if (work->begun_) unfinished_bytes_ -= subject_of(work->call_).bytes();
  complete(*work, failure, lock);
  driven_ = nullptr;
  if (runner_->begins_ahead().always > 0) begin_next(lock);
  wake_thread();
}

void QueueState::complete(WorkState& work, Failure failure, Lock& lock) {
  const bool is_own_thread = std::this_thread::get_id() == own_thread_;
  // done() becomes true only after the continuations have run. Continuations that are registered before that are added
  // to the list.
  while (!work.continuations_.empty()) {
    const auto continuations = std::exchange(work.continuations_, {});
    continues_on_ = std::this_thread::get_id();
    lock.unlock();
    Failure thrown;
    {
      const ProgramRuns program;
      const ContinuationRuns here;
      if (is_own_thread) runner_->continuation_runs(true);
      for (const auto& continuation : continuations) {
        const Failure own =
            failure_of(*runner_, work.call_, [&] { continuation(failure.error ? &*failure.error : nullptr); });
        if (own.error && !thrown.error) thrown = own;
      }
      if (is_own_thread) runner_->continuation_runs(false);
    }
    lock.lock();
    continues_on_ = std::thread::id();
    if (!thrown.error || failure.error) continue;
    failure = thrown;
    if (broken_by_.empty()) broken_by_ = continuation_threw_text(failure.error->what());
  }
  work.failure_ = failure.exception;
  work.done_.store(true, std::memory_order_release);
  progress_.notify_all();
}

void QueueState::wait(WorkState& work) {
  if (work.done()) return;
  const Waiting waiting([&](bool begins) { runner_->waits(work.call_, begins); });
  Lock lock(mutex_);
  if (work.call_.stream) return wait_on_stream(work, lock);
  const Waiting on_host([&](bool begins) { runner_->host_waits(work.call_, begins); });
  while (!work.done()) wait_a_little(lock);
}

// The host waits only until the operation has begun.
void QueueState::wait_on_stream(WorkState& work, Lock& lock) {
  while (!work.done() && !work.begun_) wait_a_little(lock);
  if (work.done()) return;
  lock.unlock();
  runner_->join_stream(work.call_);
}

void QueueState::wait_a_little(Lock& lock) {
  if (holds_ > 0 && holder_ == std::this_thread::get_id()) throw wait_in_batch_error();
  if (!can_run_front()) {
    progress_.wait(lock);
    return;
  }
  const bool prompt = std::chrono::steady_clock::now() - waiting_.front()->call_.called_at < limits::kPromptWait;
  prompt_waits_ = prompt ? prompt_waits_ + 1 : 0;
  run_front(lock);
}

bool QueueState::wait_for(WorkState& work, std::chrono::nanoseconds limit) {
  attend();
  const Waiting waiting([&](bool begins) { runner_->waits_with_limit(begins); });
  const Waiting on_host([&](bool begins) { runner_->host_waits(work.call_, begins); });
  Lock lock(mutex_);
  return progress_.wait_for(lock, limit, [&] { return work.done(); });
}

void QueueState::attend() {
  runner_->polls();
  const Lock lock(mutex_);
  prompt_waits_ = 0;
  if (can_run_front()) wake_thread();
}

void QueueState::then(WorkState& work, std::function<void(const Error*)> continuation) {
  {
    const Lock lock(mutex_);
    if (!work.done()) {
      work.continuations_.push_back(std::move(continuation));
      prompt_waits_ = 0;
      if (can_run_front()) wake_thread();
      return;
    }
  }
  const ContinuationRuns here;
  if (!work.failure_) return continuation(nullptr);
  try {
    std::rethrow_exception(work.failure_);
  } catch (const Error& error) {
    continuation(&error);
  }
}

void QueueState::cancel(WorkState& work) noexcept {
  bool in_continuation = false;
  bool in_batch = false;
  {
    const Lock lock(mutex_);
    in_continuation = continues_on_ == std::this_thread::get_id();
    in_batch = holds_ > 0 && holder_ == std::this_thread::get_id();
  }
  if (!in_continuation && !in_batch && wait_for(work, limits::kUnwindingWait)) return;
  close(kWorkWasLeftText);
  runner_->abort();
  Lock lock(mutex_);
  // The queue runs no other operation until the continuation on this thread ends.
  work.canceled_ = in_continuation;
  progress_.wait(lock, [&] { return work.done() || (in_continuation && !beginning_); });
}

void QueueState::refuse_in_continuation(const char* function) {
  if (continuations_here > 0) throw wait_in_continuation_error(function);
}

void QueueState::hold() {
  const Lock lock(mutex_);
  if (++holds_ == 1) ++last_batch_;
  holder_ = std::this_thread::get_id();
}

void QueueState::release() {
  Lock lock(mutex_);
  if (holds_ == 0 || --holds_ > 0) return;
  ++last_batch_;
  begin_next(lock);
  progress_.notify_all();  // a thread that waited for a held operation may run it now
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
  return progress_.wait_for(lock, limit, [this] { return driven_ == nullptr && waiting_.empty(); });
}

void QueueState::serve() {
  base::name_this_thread("queue");
  Lock lock(mutex_);
  own_thread_ = std::this_thread::get_id();
  int idle_polls = 0;
  while (true) {
    if (driven_ == nullptr && waiting_.empty() && !closed_by_.empty()) return;
    if (needs_thread_ && can_run_front()) {
      idle_polls = 0;
      prompt_waits_ = 0;
      run_front(lock);
      continue;
    }
    needs_thread_ = false;
    thread_asleep_ = true;
    thread_polls_ = waits_promptly() && (++idle_polls < limits::kQueueIdlePolls || !waiting_.empty());
    if (!thread_polls_) {
      idle_polls = 0;
      attention_.wait(lock);
    } else if (attention_.wait_for(lock, limits::kQueuePoll) == std::cv_status::timeout) {
      const bool left_alone =
          !waiting_.empty() && (!waiting_.front()->begun_ || waiting_.front()->call_.stream) &&
          std::chrono::steady_clock::now() - waiting_.front()->call_.called_at >= limits::kQueuePoll / 2;
      needs_thread_ = left_alone;
    }
    thread_asleep_ = false;
  }
}

OperationQueue::OperationQueue(std::shared_ptr<CallRunner> runner)
    : state_(std::make_shared<QueueState>(std::move(runner))), thread_([state = state_] { state->serve(); }) {}

OperationQueue::~OperationQueue() {
  state_->close(kDestroyedText);
  if (std::uncaught_exceptions() > 0 && !state_->idle_within(limits::kUnwindingWait)) {
    thread_.detach();
    return;
  }
  thread_.join();
}

}  // namespace ddp::internal
