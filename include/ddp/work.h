// Work: an operation under way.
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

// Move-only. Dropping a Work does not cancel the operation: its buffers must live until it is done. Every function may
// be called from any thread.
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

  // Blocks until the operation is done (with CallOptions::stream: until it has begun, and the stream then waits for
  // it); throws its ddp::OperationError if it failed. May be called more than once. Bounded by the operation's own
  // time-out. Where it can, the operation runs on the thread that waits, which saves two changes of threads.
  void wait();

  // Blocks until the operation is done, but no longer than `limit`: false if it is not done by then. Throws as wait().
  // The operation goes on.
  bool wait_for(std::chrono::nanoseconds limit);

  // Whether wait() would return (or throw) at once.
  bool done() const;

  // Calls `continuation` once when the operation is done: with null, or with why it failed. At once and on this thread
  // if it is done already, else on the thread that ends it, before anybody's wait() returns. It must not throw, wait
  // for work or take long: the group's next operation waits for it.
  void then(std::function<void(const Error* failure)> continuation);

 private:
  std::shared_ptr<internal::WorkState> state_;
};

}  // namespace ddp
