// OperationQueue runs a group's operations one after the other. A thread that waits for an operation runs the
// operations before it and then that operation. The queue's own thread runs operations for which no thread waits, so
// that the caller can continue to compute. The first failure breaks the queue: all later operations fail with
// `aborted`.
#pragma once

#include <ddp/error.h>
#include <ddp/work.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "runtime/call/call.h"

namespace ddp::internal {

// Carries out the queue's calls. Only one thread at a time calls begin(), and only one calls run(). Both run at the
// same time only with begins_ahead().
class CallRunner {
 public:
  virtual ~CallRunner() = default;

  // The queue calls it as soon as an operation is called, in order, and on one thread at a time.
  virtual void called(const Call& /*call*/) {}
  // A thread calls it when it begins to wait for the call, and when it stops waiting.
  virtual void waits(const Call& /*call*/, bool /*begins*/) {}
  // A thread calls it when it begins to wait with a time-out, and when it stops waiting.
  virtual void waits_with_limit(bool /*begins*/) {}
  // The queue's thread calls it when it begins to run the program's continuations, and when it stops.
  virtual void continuation_runs(bool /*begins*/) {}
  // A thread calls it when it asks whether an operation is done.
  virtual void polls() {}
  // Backend describes these functions. They throw ddp::Error.
  virtual BeginsAhead begins_ahead() const { return {}; }
  virtual bool begin(std::span<const Call* const> calls) = 0;
  virtual bool begin_batch(std::span<const Call* const> /*calls*/) { return false; }
  virtual void host_waits(const Call& /*call*/, bool /*begins*/) {}
  virtual void run(const Call& call) = 0;
  virtual void join_stream(const Call& /*call*/) {}
  // Makes the running operation end soon. Any thread may call it at any time.
  virtual void abort() {}
  // These functions identify the call, for messages and for programs.
  virtual std::string describe(const Call& call) const = 0;
  virtual OperationError::Operation identify(const Call& call) const {
    return {"", 0, std::string(to_string(call.operation)), call.sequence};
  }
};

class QueueState;

// Holds the state of a Work: the operation and its progress. The mutex of the queue guards it.
class WorkState {
 public:
  WorkState(std::shared_ptr<QueueState> queue, Call call) : queue_(std::move(queue)), call_(std::move(call)) {}

  bool done() const { return done_.load(std::memory_order_acquire); }
  // Throws the failure, if there was one. It may only be called when done() is true.
  void check() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  friend class ddp::Work;
  friend class QueueState;

  const std::shared_ptr<QueueState> queue_;
  const Call call_;
  std::uint64_t batch_ = 0;  // operations that were held together have the same number
  bool begun_ = false;
  bool canceled_ = false;  // it must not run any more
  std::atomic<bool> done_ = false;
  std::exception_ptr failure_;  // failure of begin(), or the final failure when done
  std::vector<std::function<void(const Error*)>> continuations_;
};

// The queue's thread and all Works share this state. Works may outlive the queue. Any thread may call it.
class QueueState : public std::enable_shared_from_this<QueueState> {
 public:
  struct Failure;

  explicit QueueState(std::shared_ptr<CallRunner> runner) : runner_(std::move(runner)) {}

  std::shared_ptr<WorkState> push(Call call);
  // Returns a completed work for a call that is never made.
  std::shared_ptr<WorkState> skip(Call call);
  void wait(WorkState& work);
  bool wait_for(WorkState& work, std::chrono::nanoseconds limit);
  // Makes the queue's thread complete the work although no thread waits for it.
  void attend();
  void then(WorkState& work, std::function<void(const Error*)> continuation);
  // Waits up to limits::kUnwindingWait for the operation. Then closes the queue, aborts the running operation, and
  // returns when `work` is done. Within a continuation of this queue, it returns at once, and `work` never runs.
  void cancel(WorkState& work) noexcept;
  // Throws invalid_argument if this thread runs a continuation.
  static void refuse_in_continuation(const char* function);

  void hold();
  void release();
  // Makes operations that have not begun fail with `aborted`, for this reason.
  void close(const std::string& reason);
  // Returns false if an operation runs for longer than `limit`.
  bool idle_within(std::chrono::nanoseconds limit);
  // Runs on the queue's thread until close().
  void serve();

 private:
  using Lock = std::unique_lock<std::mutex>;
  // After this many prompt waits in a row, the program is assumed to wait right after each call. Waking the queue's
  // thread would then only take processors away from the ranks. Instead, the thread polls now and then, as long as the
  // program calls operations.
  static constexpr int kPromptWaits = 8;

  // Returns why the operation must not run, or an empty string if it may run.
  std::string obstacle(const WorkState& work) const;
  bool can_run_front() const;
  void run_front(Lock& lock);
  void complete(WorkState& work, Failure failure, Lock& lock);
  void mark_begun(WorkState& work);
  // Returns the next operations that may begin now: one, or all that were called between hold() and release().
  std::vector<const Call*> next_to_begin() const;
  // Returns the first operation that has not begun, and all that were held with it.
  std::vector<const Call*> next_batch() const;
  void begin_next(Lock& lock);
  void wait_on_stream(WorkState& work, Lock& lock);
  // Runs the next operation, or waits until something has changed.
  void wait_a_little(Lock& lock);
  void wake_thread();
  bool waits_promptly() const { return prompt_waits_ >= kPromptWaits; }

  const std::shared_ptr<CallRunner> runner_;
  std::mutex mutex_;
  std::condition_variable attention_;  // the queue's thread waits on it
  std::condition_variable progress_;   // all other threads wait on it
  std::deque<std::shared_ptr<WorkState>> waiting_;
  const WorkState* driven_ = nullptr;  // the operation that a thread runs now
  std::size_t begun_ = 0;              // how many of the waiting operations have begun
  std::size_t unfinished_bytes_ = 0;   // of all operations that have begun and are not complete
  bool beginning_ = false;
  bool thread_asleep_ = false;
  bool thread_polls_ = false;  // the thread wakes up by itself soon
  int prompt_waits_ = 0;       // operations in a row for which the program waited right after the call
  bool needs_thread_ = false;
  int holds_ = 0;
  std::uint64_t last_batch_ = 0;
  std::uint64_t refused_batch_ = 0;
  std::thread::id holder_;
  std::thread::id own_thread_;
  std::thread::id continues_on_;  // the thread that runs continuations of this queue
  std::uint64_t next_sequence_ = 1;
  std::string broken_by_;
  std::string closed_by_;
};

class OperationQueue {
 public:
  explicit OperationQueue(std::shared_ptr<CallRunner> runner);
  // Lets the running operation end. Operations that have not begun fail with `aborted`. While an exception unwinds the
  // stack, it waits only for a second and then leaves the operation alone. Otherwise peers that wait for this rank
  // would hold it until the timeout, and the exception would not be reported.
  ~OperationQueue();
  OperationQueue(const OperationQueue&) = delete;
  OperationQueue& operator=(const OperationQueue&) = delete;

  // Gives the call its number. Any thread may call it.
  Work push(Call call) { return Work(state_->push(std::move(call))); }

  // The other ranks do not see the call. Its work is already done.
  Work skip(Call call) { return Work(state_->skip(std::move(call))); }

  // Calls between hold() and release() begin together at release().
  void hold() { state_->hold(); }
  void release() { state_->release(); }

  void close(const std::string& reason) { state_->close(reason); }

 private:
  std::shared_ptr<QueueState> state_;
  std::thread thread_;
};

}  // namespace ddp::internal
