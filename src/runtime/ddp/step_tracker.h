// StepTracker: which gradients are ready in a step, and so which buckets may be reduced. Pure; knows no memory.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/ddp/bucket_plan.h"

namespace ddp::internal {

// A value. Buckets start strictly in the plan's order, whatever the order in which they fill: that keeps the
// collectives of all ranks matched.
class StepTracker {
 public:
  explicit StepTracker(std::size_t parameters);

  // Between steps: another plan. A parameter may be in several buckets.
  void adopt(std::span<const Bucket> buckets);
  // Between steps: how often each gradient is completed in a step, by parameter; 0 for those that never are. Nothing
  // given: this step shows it, and until it ends no bucket may start. In the beginning each is completed once.
  void expect(std::vector<std::size_t> times) { expected_ = std::move(times); }
  bool is_learning() const { return expected_.empty(); }

  // Begins a step.
  void begin();
  // False, and nothing has happened, if the gradient was complete before.
  bool mark(std::size_t parameter);
  // The first so many buckets are complete.
  std::size_t complete_buckets() const { return complete_buckets_; }

  bool began() const { return clock_ > 0; }
  // Parameters that are not complete (while learning: that were never marked), ascending.
  std::vector<std::size_t> missing() const;
  // How often each was marked.
  const std::vector<std::size_t>& times() const { return times_; }
  // The marked ones, by when each was marked for the last time.
  std::vector<std::size_t> order() const;

 private:
  // Of a complete parameter.
  void count_off(std::size_t parameter);
  void advance();
  bool is_complete(std::size_t parameter) const;

  std::vector<std::vector<std::size_t>> buckets_of_;  // by parameter
  std::vector<std::size_t> bucket_sizes_;             // parameters, by bucket
  std::vector<std::size_t> expected_;                 // empty: learning

  std::vector<std::size_t> times_;
  std::vector<std::size_t> last_mark_;  // on clock_
  std::vector<std::size_t> pending_;    // by bucket: parameters that are not complete
  std::size_t complete_buckets_ = 0;
  std::size_t clock_ = 0;  // marks in this step
};

}  // namespace ddp::internal
