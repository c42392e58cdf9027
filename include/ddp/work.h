// Work: a collective under way.
#pragma once

#include <ddp/version.h>

#include <memory>

namespace ddp {

class WorkState;

// Move-only. Dropping a Work does not cancel the operation: its buffers must live until it is done.
//
//   ddp::Work work = world.all_reduce(gradients, ddp::ReduceOp::average);
//   compute_something_else();
//   work.wait();
class [[nodiscard]] DDP_EXPORT Work {
 public:
  explicit Work(std::shared_ptr<WorkState> state);
  Work(Work&&) noexcept;
  Work& operator=(Work&&) noexcept;
  ~Work();

  // Blocks until the operation is done; throws its ddp::Error if it failed. May be called more than once, from any
  // thread. Bounded by the group's time-out, which belongs to the operation itself.
  void wait();

  // Whether wait() would return (or throw) at once.
  bool done() const;

 private:
  std::shared_ptr<WorkState> state_;
};

}  // namespace ddp
