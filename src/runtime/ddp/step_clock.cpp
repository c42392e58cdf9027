#include "runtime/ddp/step_clock.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "runtime/group/group_core.h"

namespace ddp::internal {
namespace {

double seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

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

GpuStepClock::GpuStepClock(std::unique_ptr<SideStream> side, Stream stream, std::size_t timed_gradients)
    : StepClock(stream), side_(std::move(side)), ready_(timed_gradients) {
  step_.began = mark();
}

void GpuStepClock::use(Stream stream) {
  // Gradients that were marked while the program used the earlier stream may still be under way there.
  if (stream.handle() != stream_.handle()) side_->order(stream_.handle(), side_->handle());
  stream_ = stream;
}

void GpuStepClock::begin_step() {
  if (!ready_.empty()) gradients_began_ = mark();
}

void GpuStepClock::mark_ready(std::size_t parameter) {
  if (parameter < ready_.size()) ready_[parameter] = mark();
}

double GpuStepClock::seconds_until_ready(std::size_t parameter) const {
  const Mark& ready = ready_[parameter];
  return ready ? side_->seconds(gradients_began_, ready).value_or(0) : 0;
}

Stream GpuStepClock::begin_bucket() {
  side_->order(stream_.handle(), side_->handle());
  step_.buckets.push_back({side_->mark(side_->handle()), nullptr});
  return Stream::from_handle(side_->handle());
}

void GpuStepClock::leave_finish(std::size_t bytes) {
  step_.left = mark();
  step_.bytes = bytes;
  Step next;
  next.began = step_.left;
  left_.push_back(std::exchange(step_, std::move(next)));
  ended_buckets_ = 0;
  statistics();
}

void GpuStepClock::abandon() {
  join();
  step_ = {};
  step_.began = mark();
  ended_buckets_ = 0;
}

void GpuStepClock::wait(std::chrono::nanoseconds limit) {
  for (void* stream : {side_->handle(), stream_.handle()}) side_->finish(stream, limit);
}

const StepStatistics& GpuStepClock::statistics() {
  while (!left_.empty() && add_completed(left_.front())) left_.pop_front();
  return statistics_;
}

bool GpuStepClock::add_completed(const Step& step) {
  // Work that was put on a stream before `left` is done when `left` is reached.
  const std::optional<double> exposed = side_->seconds(step.entered, step.left);
  if (!exposed) return false;
  const auto since_begin = [&](const Mark& mark) { return side_->seconds(step.began, mark).value_or(0); };
  std::vector<Interval> buckets;
  for (const Bucket& bucket : step.buckets) buckets.push_back({since_begin(bucket.began), since_begin(bucket.ended)});
  add(statistics_, {since_begin(step.entered), seconds_under_way(buckets), *exposed, step.bytes});
  return true;
}

std::unique_ptr<StepClock> make_step_clock(const ProcessGroup& group, Stream stream, std::size_t timed_gradients) {
  if (!stream) return std::make_unique<HostStepClock>(timed_gradients);
  return std::make_unique<GpuStepClock>(group.core().backend().side_stream(), stream, timed_gradients);
}

}  // namespace ddp::internal
