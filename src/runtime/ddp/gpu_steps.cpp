#include "runtime/ddp/gpu_steps.h"

#include <optional>
#include <utility>

#include "runtime/ddp/step_sample.h"

namespace ddp::internal {

GpuSteps::GpuSteps(std::unique_ptr<SideStream> side, void* stream) : side_(std::move(side)), stream_(stream) {
  step_.began = side_->mark(stream_);
}

void GpuSteps::use(void* stream) {
  if (stream == stream_) return;
  // Gradients that were marked while the program used the earlier stream may still be under way there.
  side_->order(stream_, side_->handle());
  stream_ = stream;
}

void* GpuSteps::begin_bucket() {
  side_->order(stream_, side_->handle());
  step_.buckets.push_back({side_->mark(side_->handle()), nullptr});
  return side_->handle();
}

void GpuSteps::leave_finish(std::size_t bytes, StepStatistics& mean) {
  step_.left = side_->mark(stream_);
  step_.bytes = bytes;
  Step next;
  next.began = step_.left;
  left_.push_back(std::exchange(step_, std::move(next)));
  ended_buckets_ = 0;
  add_completed(mean);
}

void GpuSteps::wait(std::chrono::nanoseconds limit) {
  for (void* stream : {side_->handle(), stream_}) side_->finish(stream, limit);
}

void GpuSteps::abandon() {
  join();
  step_ = {};
  step_.began = side_->mark(stream_);
  ended_buckets_ = 0;
}

void GpuSteps::add_completed(StepStatistics& mean) {
  while (!left_.empty() && add_first(mean)) left_.pop_front();
}

bool GpuSteps::add_first(StepStatistics& mean) {
  const Step& step = left_.front();
  // Work that was put on a stream before `left` is done when `left` is reached.
  const std::optional<double> exposed = side_->seconds(step.entered, step.left);
  if (!exposed) return false;
  const auto since_begin = [&](const Mark& mark) { return side_->seconds(step.began, mark).value_or(0); };
  std::vector<Interval> buckets;
  for (const Bucket& bucket : step.buckets) buckets.push_back({since_begin(bucket.began), since_begin(bucket.ended)});
  add(mean, {since_begin(step.entered), seconds_under_way(buckets), *exposed, step.bytes});
  return true;
}

}  // namespace ddp::internal
