// GpuSteps: the order of a GPU's streams in a training step, and what the steps took there.
#pragma once

#include <ddp/step_statistics.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "runtime/backend/backend.h"

namespace ddp::internal {

// The program computes on its stream. Buckets are reduced behind a stream beside it, which waits for the gradients; the
// program's stream waits for the results at the end of the step, and no thread does. One thread at a time.
class GpuSteps {
 public:
  GpuSteps(std::unique_ptr<SideStream> side, void* stream);

  // The next bucket's gradients are complete when what is on the program's stream now is done. Returns the stream that
  // waits for that: of the bucket's collectives.
  void* begin_bucket();
  // The first bucket that has not ended, whose collectives that stream waits for.
  void end_bucket() { step_.buckets[ended_buckets_++].ended = side_->mark(side_->handle()); }
  // The program's stream waits for the buckets that have ended.
  void join() { side_->order(side_->handle(), stream_); }

  void enter_finish() { step_.entered = side_->mark(stream_); }
  // After join(). `bytes`: that this rank gave to collectives in the step.
  void leave_finish(std::size_t bytes);

  // The step does not count; the program's stream waits for what is under way.
  void abandon();

  // Adds the steps that the GPU has completed since the last time.
  void add_completed(StepStatistics& mean);

 private:
  using Mark = SideStream::Mark;
  struct Bucket {
    Mark began;
    Mark ended;
  };
  struct Step {
    Mark began;  // the end of the step before
    Mark entered;
    Mark left;
    std::vector<Bucket> buckets;
    std::size_t bytes = 0;
  };
  bool add_first(StepStatistics& mean);

  const std::unique_ptr<SideStream> side_;
  void* const stream_;
  Step step_;
  std::size_t ended_buckets_ = 0;
  std::deque<Step> left_;
};

}  // namespace ddp::internal
