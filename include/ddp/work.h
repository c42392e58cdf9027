// A Work is an operation in progress.
#pragma once

#include <ddp/export.h>

#include <chrono>
#include <functional>
#include <memory>

namespace ddp {

class Error;
namespace internal {
class WorkState;
}  // namespace internal

// It is move-only. Every function may be called from any thread. A Work that was moved from throws invalid_argument.
//
// Dropping a Work does not cancel the operation, so its buffers must live until it is done. If an exception passes the
// Work, its destructor waits up to a second for the operation. Then it aborts the whole group and waits until the
// operation has ended, so that the exception may destroy the buffers, too. For that, the Work must be declared after
// its buffers.
//
//   ddp::Work work = world.all_reduce(gradients, ddp::ReduceOp::average);
//   compute_something_else();
//   work.wait();
class [[nodiscard]] DDP_EXPORT Work {
 public:
  explicit Work(std::shared_ptr<internal::WorkState> state);
  Work(Work&&) noexcept;
  Work& operator=(Work&&) noexcept;
  ~Work();

  // Blocks until the operation is done, and throws its ddp::OperationError if it failed. Throws invalid_argument within
  // a continuation. With CallOptions::stream it blocks until the operation has begun, and the stream then waits for it.
  // It may be called more than once. The operation's own time-out limits it. If possible, the operation runs on the
  // waiting thread, which saves two thread switches.
  void wait();

  // Blocks until the operation is done, but at most `limit`. Returns false if it is not done by then; the operation
  // continues. Throws as wait().
  bool wait_for(std::chrono::nanoseconds limit);

  // Returns whether wait() would return (or throw) at once.
  bool done() const;

  // Calls `continuation` once when the operation is done, with null or with the error of the operation. If the
  // operation is already done, it calls it at once on this thread. Otherwise the thread that ends the operation calls
  // it, before any wait() returns. The continuation must not wait for work or take long, because the group's next
  // operation waits for it. If it throws, the operation counts as failed with this error.
  void then(std::function<void(const Error* failure)> continuation);

 private:
  internal::WorkState& state() const;

  std::shared_ptr<internal::WorkState> state_;
  int exceptions_;  // exceptions that unwound this thread's stack when the operation was called
};

}  // namespace ddp
