// Describes the times of one synchronised step, and computes their means over steps.
#pragma once

#include <ddp/step_statistics.h>

#include <cstddef>
#include <span>

namespace ddp::internal {

// Times are in seconds from any common zero.
struct Interval {
  double began = 0;
  double ended = 0;
};

struct StepSample {
  double compute_seconds = 0;
  double communication_seconds = 0;
  double exposed_seconds = 0;
  std::size_t bytes = 0;
};

void add(StepStatistics& mean, const StepSample& sample);

// Returns the time in which buckets were under way. Buckets end in their order, because each waits for those before it.
// So a bucket counts from the end of the previous one.
double seconds_under_way(std::span<const Interval> buckets);

}  // namespace ddp::internal
