// GpuSteps orders a GPU's streams in a training step, and measures the steps on the GPU.
#pragma once

#include <ddp/step_statistics.h>

#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "runtime/backend/backend.h"

namespace ddp::internal {

// The program computes on its stream. Buckets are reduced behind a side stream, which waits for the gradients. At the
// end of the step, the program's stream waits for the results; no thread waits. Only one thread at a time may use the
// class.
class GpuSteps {
 public:
  GpuSteps(std::unique_ptr<SideStream> side, void* stream);

  // The program computes on this stream from now on. What it has put on the earlier stream stays in order: buckets that
  // begin later wait for it, too.
  void use(void* stream);

  // Begins the next bucket. Its gradients are complete when the work that is on the program's stream now is done.
  // Returns the stream that waits for that work; the bucket's collectives use this stream.
  void* begin_bucket();
  // Ends the first bucket that has not ended. The side stream waits for the bucket's collectives.
  void end_bucket() { step_.buckets[ended_buckets_++].ended = side_->mark(side_->handle()); }
  // Makes the program's stream wait for the buckets that have ended.
  void join() { side_->order(side_->handle(), stream_); }

  // Returns a mark for the moment when the work that is on the program's stream now is done.
  SideStream::Mark mark_ready() { return side_->mark(stream_); }
  // Returns the time from the first mark to the second one. Returns 0 if one of them is null or is not reached.
  double seconds(const SideStream::Mark& earlier, const SideStream::Mark& later) {
    return earlier && later ? side_->seconds(earlier, later).value_or(0) : 0;
  }

  void enter_finish() { step_.entered = side_->mark(stream_); }
  // The caller has called join() before. `bytes` is the number of bytes that this rank gave to collectives in the step.
  // Adds the steps that the GPU has completed to `mean`, so that only the marks of steps under way are kept.
  void leave_finish(std::size_t bytes, StepStatistics& mean);

  // Blocks until the work that is on the streams now is done. Throws `timeout`.
  void wait(std::chrono::nanoseconds limit);

  // Leaves the step out of the statistics. The program's stream waits for the work under way.
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
    Mark began;  // the end of the previous step
    Mark entered;
    Mark left;
    std::vector<Bucket> buckets;
    std::size_t bytes = 0;
  };
  bool add_first(StepStatistics& mean);

  const std::unique_ptr<SideStream> side_;
  void* stream_;
  Step step_;
  std::size_t ended_buckets_ = 0;
  std::deque<Step> left_;
};

}  // namespace ddp::internal
