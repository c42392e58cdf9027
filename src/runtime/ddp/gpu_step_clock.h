// GpuStepClock orders a GPU's streams in a training step, and measures the steps on the GPU.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "runtime/backend/backend.h"
#include "runtime/ddp/step_clock.h"

namespace ddp::internal {

// The program computes on its stream. Buckets are reduced behind a side stream, which waits for the gradients. At the
// end of the step, the program's stream waits for the results; no thread waits.
class GpuStepClock : public StepClock {
 public:
  GpuStepClock(std::unique_ptr<SideStream> side, Stream stream, std::size_t timed_gradients);

  // What the program has put on the earlier stream stays in order: buckets that begin later wait for it, too.
  void use(Stream stream) override;
  // The time of a step starts when the previous step ends. This function starts only the time of its gradients.
  void begin_step() override;
  void mark_ready(std::size_t parameter) override;
  double seconds_until_ready(std::size_t parameter) const override;
  void forget_gradients() override { ready_.clear(); }
  // The bucket's gradients are complete when the work that is on the program's stream now is done. The returned stream
  // waits for that work.
  Stream begin_bucket() override;
  void watch_bucket(std::span<Work>) override {}
  // The side stream waits for the bucket's collectives.
  void end_bucket() override { step_.buckets[ended_buckets_++].ended = side_->mark(side_->handle()); }
  void join() override { side_->order(side_->handle(), stream_.handle()); }
  void enter_finish() override { step_.entered = mark(); }
  // Adds the steps that the GPU has completed to the statistics, so that only the marks of steps under way are kept.
  void leave_finish(std::size_t bytes) override;
  void abandon() override;
  void wait(std::chrono::nanoseconds limit) override;
  const StepStatistics& statistics() override;

 private:
  using Mark = SideStream::Mark;
  struct Bucket {
    Mark began;
    Mark ended;
  };
  struct Step {
    Mark began;  // the end of the previous step
    Mark entered;
    Mark left;
    std::vector<Bucket> buckets;
    std::size_t bytes = 0;
  };
  // Returns a mark for the moment when the work that is on the program's stream now is done.
  Mark mark() { return side_->mark(stream_.handle()); }
  // Returns false if the GPU has not completed the step.
  bool add_completed(const Step& step);

  const std::unique_ptr<SideStream> side_;
  Step step_;
  std::size_t ended_buckets_ = 0;
  std::deque<Step> left_;
  Mark gradients_began_;
  std::vector<Mark> ready_;  // by parameter
};

}  // namespace ddp::internal
