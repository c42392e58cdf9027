#include "runtime/ddp/gpu_step_clock.h"

#include <optional>
#include <utility>

#include "runtime/ddp/step_sample.h"

namespace ddp::internal {

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

}  // namespace ddp::internal
