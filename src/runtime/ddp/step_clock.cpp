#include "runtime/ddp/step_clock.h"

#include "runtime/ddp/gpu_step_clock.h"
#include "runtime/ddp/step_sample.h"
#include "runtime/group/group_core.h"

namespace ddp::internal {
namespace {

double seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

HostStepClock::HostStepClock(std::size_t timed_gradients) : StepClock(Stream()), ready_(timed_gradients) {}

void HostStepClock::mark_ready(std::size_t parameter) {
  if (parameter < ready_.size()) ready_[parameter] = Clock::now();
}

double HostStepClock::seconds_until_ready(std::size_t parameter) const {
  return seconds(ready_[parameter] - began_);
}

Stream HostStepClock::begin_bucket() {
  const Clock::time_point now = Clock::now();
  buckets_.push_back({now, std::make_shared<std::atomic<Clock::rep>>(now.time_since_epoch().count())});
  return {};
}

void HostStepClock::watch_bucket(std::span<Work> works) {
  for (Work& work : works) {
    work.then([ended = buckets_.back().ended](const Error*) { *ended = Clock::now().time_since_epoch().count(); });
  }
}

void HostStepClock::leave_finish(std::size_t bytes) {
  const Clock::time_point left = Clock::now();
  std::vector<Interval> buckets;
  for (const Bucket& bucket : buckets_) {
    const Clock::time_point ended{Clock::duration(bucket.ended->load())};
    buckets.push_back({seconds(bucket.began - began_), seconds(ended - began_)});
  }
  buckets_.clear();
  add(statistics_, {seconds(entered_ - began_), seconds_under_way(buckets), seconds(left - entered_), bytes});
}

std::unique_ptr<StepClock> make_step_clock(const ProcessGroup& group, Stream stream, std::size_t timed_gradients) {
  if (!stream) return std::make_unique<HostStepClock>(timed_gradients);
  return std::make_unique<GpuStepClock>(group.core().backend().side_stream(), stream, timed_gradients);
}

}  // namespace ddp::internal
