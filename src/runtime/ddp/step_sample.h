// What one synchronised step took, and the means over steps.
#pragma once

#include <ddp/step_statistics.h>

#include <cstddef>
#include <span>

namespace ddp::internal {

// From any common zero, seconds.
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

// The time in which buckets were under way. They end in their order: one waits for those before it, so it counts from
// the end of the one before.
double seconds_under_way(std::span<const Interval> buckets);

}  // namespace ddp::internal
