#include "runtime/ddp/step_tracker.h"

#include <algorithm>

namespace ddp::internal {

StepTracker::StepTracker(std::size_t parameters)
    : buckets_of_(parameters), expected_(parameters, 1), times_(parameters), last_mark_(parameters) {}

void StepTracker::adopt(std::span<const Bucket> buckets) {
  bucket_sizes_.clear();
  for (std::vector<std::size_t>& own : buckets_of_) own.clear();
  for (const Bucket& bucket : buckets) {
    for (const std::size_t parameter : bucket.parameters) buckets_of_[parameter].push_back(bucket_sizes_.size());
    bucket_sizes_.push_back(bucket.parameters.size());
  }
}

void StepTracker::begin() {
  std::fill(times_.begin(), times_.end(), 0);
  pending_ = bucket_sizes_;
  complete_buckets_ = 0;
  clock_ = 0;
  if (is_learning()) return;
  for (std::size_t i = 0; i < expected_.size(); ++i) {
    if (expected_[i] == 0) count_off(i);
  }
  advance();
}

bool StepTracker::mark(std::size_t parameter) {
  if (!is_learning() && times_[parameter] >= expected_[parameter]) return false;
  ++times_[parameter];
  last_mark_[parameter] = ++clock_;
  if (is_learning() || times_[parameter] < expected_[parameter]) return true;
  count_off(parameter);
  advance();
  return true;
}

void StepTracker::count_off(std::size_t parameter) {
  for (const std::size_t bucket : buckets_of_[parameter]) --pending_[bucket];
}

void StepTracker::advance() {
  while (complete_buckets_ < pending_.size() && pending_[complete_buckets_] == 0) ++complete_buckets_;
}

bool StepTracker::is_complete(std::size_t parameter) const {
  return is_learning() ? times_[parameter] > 0 : times_[parameter] >= expected_[parameter];
}

std::vector<std::size_t> StepTracker::missing() const {
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < times_.size(); ++i) {
    if (!is_complete(i)) result.push_back(i);
  }
  return result;
}

std::vector<std::size_t> StepTracker::order() const {
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < times_.size(); ++i) {
    if (times_[i] > 0) result.push_back(i);
  }
  std::sort(result.begin(), result.end(),
            [this](std::size_t a, std::size_t b) { return last_mark_[a] < last_mark_[b]; });
  return result;
}

}  // namespace ddp::internal
