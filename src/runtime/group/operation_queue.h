// OperationQueue: carries out a group's operations one after the other. Whoever waits for one runs those before it and
// then that one, on his own thread; a thread of the queue's own runs what nobody waits for, so that the caller can go
// on computing. The first failure breaks the queue: everything after it fails with `aborted`.
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

// What the queue does with a call. begin() is called by one thread at a time, and run() is; both at once only with
// begins_ahead().
class CallRunner {
 public:
  virtual ~CallRunner() = default;

  // As soon as it is called, in order; by one thread at a time.
  virtual void called(const Call& /*call*/) {}
  // A thread begins to wait for it, and ends to; on that thread.
  virtual void waits(const Call& /*call*/, bool /*begins*/) {}
  // The queue's thread begins to run the program's continuations, and ends to.
  virtual void continuation_runs(bool /*begins*/) {}
  // A thread asks whether an operation is done.
  virtual void polls() {}
  // See Backend; they throw ddp::Error.
  virtual std::size_t begins_ahead() const { return 0; }
  virtual bool begin(std::span<const Call* const> calls) = 0;
  virtual void run(const Call& call) = 0;
  virtual void join_stream(const Call& /*call*/) {}
  // Which call it was, for messages and for programs.
  virtual std::string describe(const Call& call) const = 0;
  virtual OperationError::Operation identify(const Call& call) const {
    return {"", 0, std::string(to_string(call.operation)), call.sequence};
  }
};

class QueueState;

// The shared side of a Work: the operation, and how far it is. Guarded by the mutex of its queue.
class WorkState {
 public:
  WorkState(std::shared_ptr<QueueState> queue, Call call) : queue_(std::move(queue)), call_(std::move(call)) {}

  bool done() const { return done_.load(std::memory_order_acquire); }
  // Only when done(): throws the failure, if there was one.
  void check() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  friend class ddp::Work;
  friend class QueueState;

  const std::shared_ptr<QueueState> queue_;
  const Call call_;
  std::uint64_t batch_ = 0;  // operations that were held together have the same one
  bool begun_ = false;
  std::atomic<bool> done_ = false;
  std::exception_ptr failure_;  // of its beginning, or when it is done
  std::vector<std::function<void(const Error*)>> continuations_;
};

// Shared with the queue's thread and all Works, which may outlive the queue. Any thread.
class QueueState : public std::enable_shared_from_this<QueueState> {
 public:
  struct Failure;

  explicit QueueState(std::shared_ptr<CallRunner> runner) : runner_(std::move(runner)) {}

  std::shared_ptr<WorkState> push(Call call);
  // A work that is done, of a call that is never made.
  std::shared_ptr<WorkState> skip(Call call);
  void wait(WorkState& work);
  bool wait_for(WorkState& work, std::chrono::nanoseconds limit);
  // The queue's thread sees to it that the work ends although nobody waits.
  void attend();
  void then(WorkState& work, std::function<void(const Error*)> continuation);

  void hold();
  void release();
  // What has not begun fails with `aborted`, for this reason.
  void close(const std::string& reason);
  // False if something runs for longer than `limit`.
  bool idle_within(std::chrono::nanoseconds limit);
  // Runs on the queue's thread until close().
  void serve();

 private:
  using Lock = std::unique_lock<std::mutex>;
  // After so many the program is taken for one that waits at once, for which waking the queue's thread would only take
  // processors away from the ranks. The thread looks now and then instead, for as long as operations come.
  static constexpr int kPromptWaits = 8;

  // Why the operation must not run; empty if it may.
  std::string obstacle(const WorkState& work) const;
  bool can_run_front() const;
  void run_front(Lock& lock);
  void complete(WorkState& work, const Failure& failure, Lock& lock);
  // Those that come next and may begin now: one, or what was called between hold() and release().
  std::vector<const Call*> next_to_begin() const;
  void begin_next(Lock& lock);
  void wait_on_stream(WorkState& work, Lock& lock);
  // Runs the next operation, or waits until something has changed.
  void wait_a_little(Lock& lock);
  void wake_thread();
  bool waits_promptly() const { return prompt_waits_ >= kPromptWaits; }

  const std::shared_ptr<CallRunner> runner_;
  std::mutex mutex_;
  std::condition_variable attention_;  // the queue's thread waits here,
  std::condition_variable progress_;   // everybody else here
  std::deque<std::shared_ptr<WorkState>> waiting_;
  const WorkState* driven_ = nullptr;  // the operation that somebody runs
  std::size_t begun_ = 0;              // of those that wait
  bool beginning_ = false;
  bool thread_asleep_ = false;
  bool thread_looks_ = false;  // it wakes up by itself before long
  int prompt_waits_ = 0;       // operations in a row that were waited for as soon as they were called
  bool needs_thread_ = false;
  int holds_ = 0;
  std::uint64_t last_batch_ = 0;
  std::uint64_t refused_batch_ = 0;
  std::thread::id holder_;
  std::thread::id own_thread_;
  std::uint64_t next_sequence_ = 1;
  std::string broken_by_;
  std::string closed_by_;
};

class OperationQueue {
 public:
  explicit OperationQueue(std::shared_ptr<CallRunner> runner);
  // Lets the running operation end; those not begun fail with `aborted`. While an exception unwinds the stack it waits
  // for a second only and then leaves the operation to itself: peers that wait for this rank would hold it until the
  // time-out, and nobody would hear of the exception.
  ~OperationQueue();
  OperationQueue(const OperationQueue&) = delete;
  OperationQueue& operator=(const OperationQueue&) = delete;

  // Any thread. Gives the call its number.
  Work push(Call call) { return Work(state_->push(std::move(call))); }

  // Nobody hears of the call: its work is done.
  Work skip(Call call) { return Work(state_->skip(std::move(call))); }

  // Calls between the two begin together at the end.
  void hold() { state_->hold(); }
  void release() { state_->release(); }

  void close(const std::string& reason) { state_->close(reason); }

 private:
  std::shared_ptr<QueueState> state_;
  std::thread thread_;
};

}  // namespace ddp::internal
