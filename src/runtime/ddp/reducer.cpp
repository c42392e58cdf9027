#include "runtime/ddp/reducer.h"

#include <ddp/error.h>

#include <cstdlib>
#include <cstring>
#include <exception>

#include "base/check.h"

namespace ddp {

Reducer::Reducer(ProcessGroup& group, std::span<const ParameterSize> parameters, const BucketLimits& limits)
    : group_(group), places_(parameters.size()) {
  for (Bucket& plan : plan_buckets(parameters, limits)) {
    for (const BucketSlot& slot : plan.slots) {
      places_[slot.parameter] = {buckets_.size(), slot.first, parameters[slot.parameter].count};
    }
    Memory memory = group.allocate(plan.count, plan.type);
    buckets_.push_back({std::move(plan), std::move(memory), 0});
  }
  begin_step();
}

Reducer::~Reducer() {
  if (std::uncaught_exceptions() > 0) {
    // Peers may never answer a rank that leaves; the exception must be heard all the same. A reduction that is still
    // under way keeps its memory until it ends.
    for (std::size_t i = 0; i < started_.size(); ++i) {
      started_[i].then([memory = std::make_shared<Memory>(std::move(buckets_[i].memory))](const Error*) {});
    }
    return;
  }
  for (Work& work : started_) {
    try {
      work.wait();
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): whoever unwinds has an error of his own
    }
  }
}

Buffer Reducer::gradient(std::size_t parameter) const {
  const Place& place = places_.at(parameter);
  return buckets_[place.bucket].buffer().slice(place.first, place.count);
}

void Reducer::zero() {
  for (const BucketState& bucket : buckets_) std::memset(bucket.buffer().data, 0, bucket.buffer().bytes());
}

bool Reducer::ready(std::size_t parameter) {
  const std::lock_guard lock(mutex_);
  if (is_ready_.at(parameter)) return false;
  is_ready_[parameter] = true;
  --buckets_[places_[parameter].bucket].pending;
  start_filled_buckets();
  return true;
}

std::vector<std::size_t> Reducer::missing() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < is_ready_.size(); ++i) {
    if (!is_ready_[i]) result.push_back(i);
  }
  return result;
}

void Reducer::finish() {
  DDP_CHECK(started_.size() == buckets_.size(), started_.size(), buckets_.size());
  for (Work& work : started_) work.wait();
  begin_step();
}

void Reducer::begin_step() {
  const std::lock_guard lock(mutex_);
  started_.clear();
  is_ready_.assign(places_.size(), false);
  for (BucketState& bucket : buckets_) bucket.pending = bucket.plan.slots.size();
}

void Reducer::start_filled_buckets() {
  while (started_.size() < buckets_.size() && buckets_[started_.size()].pending == 0) {
    started_.push_back(group_.all_reduce(buckets_[started_.size()].buffer(), ReduceOp::average));
  }
}

}  // namespace ddp
