// StepTracker determines which gradients are ready in a step, and so which buckets may be reduced. It is pure and
// accesses no gradients.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/ddp/bucket_plan.h"

namespace ddp::internal {

// The class is a value type. Buckets start strictly in the plan's order, in whatever order they fill. That keeps the
// collectives of all ranks matched.
class StepTracker {
 public:
  explicit StepTracker(std::size_t parameters);

  // Adopts another plan between steps. A parameter may be in several buckets.
  void adopt(std::span<const Bucket> buckets);
  // Sets between steps how often each gradient is completed in a step, by parameter; 0 means never. If `times` is
  // empty, the next step determines the numbers, and no bucket may start until that step ends. Initially, each gradient
  // is completed once.
  void expect(std::vector<std::size_t> times) { expected_ = std::move(times); }
  bool is_learning() const { return expected_.empty(); }

  // Begins a step.
  void begin();
  // Returns false, and does nothing, if the gradient was complete before.
  bool mark(std::size_t parameter);
  // Returns how many of the first buckets are complete.
  std::size_t complete_buckets() const { return complete_buckets_; }

  bool began() const { return clock_ > 0; }
  // Returns the parameters that are not complete, ascending. While learning, these are the parameters that were never
  // marked.
  std::vector<std::size_t> missing() const;
  // Returns how often each parameter was marked.
  const std::vector<std::size_t>& times() const { return times_; }
  // Returns the marked parameters, ordered by the time of their last mark.
  std::vector<std::size_t> order() const;

 private:
  // Subtracts a complete parameter from the pending ones of its buckets.
  void count_off(std::size_t parameter);
  void advance();
  bool is_complete(std::size_t parameter) const;

  std::vector<std::vector<std::size_t>> buckets_of_;  // by parameter
  std::vector<std::size_t> bucket_sizes_;             // number of parameters, by bucket
  std::vector<std::size_t> expected_;                 // empty while learning

  std::vector<std::size_t> times_;
  std::vector<std::size_t> last_mark_;  // time of the last mark, on clock_
  std::vector<std::size_t> pending_;    // by bucket: number of parameters that are not complete
  std::size_t complete_buckets_ = 0;
  std::size_t clock_ = 0;  // number of marks in this step
};

}  // namespace ddp::internal
