#include "runtime/ddp/step_sample.h"

#include <algorithm>
#include <limits>

namespace ddp::internal {

void add(StepStatistics& mean, const StepSample& sample) {
  ++mean.steps;
  const auto include = [&mean](double& value, double other) {
    value += (other - value) / static_cast<double>(mean.steps);
  };
  include(mean.compute_seconds, sample.compute_seconds);
  include(mean.communication_seconds, sample.communication_seconds);
  include(mean.exposed_seconds, sample.exposed_seconds);
  include(mean.bytes, static_cast<double>(sample.bytes));
}

double seconds_under_way(std::span<const Interval> buckets) {
  double result = 0;
  double until = -std::numeric_limits<double>::infinity();
  for (const Interval& bucket : buckets) {
    result += std::max(0.0, bucket.ended - std::max(bucket.began, until));
    until = std::max(until, bucket.ended);
  }
  return result;
}

}  // namespace ddp::internal
