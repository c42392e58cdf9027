// StepClock measures the steps of a Reducer. If the parameters are in GPU memory, it orders the GPU's streams, too.
#pragma once

#include <ddp/process_group.h>
#include <ddp/step_statistics.h>
#include <ddp/stream.h>
#include <ddp/work.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "runtime/backend/backend.h"

namespace ddp::internal {

// Times are in seconds from any common zero.
struct Interval {
  double began = 0;
  double ended = 0;
};

struct StepSample {
  double compute_seconds = 0;
  double communication_seconds = 0;
  double exposed_seconds = 0;
  std::size_t bytes = 0;
};

void add(StepStatistics& mean, const StepSample& sample);

// Returns the time in which buckets were under way. Buckets end in their order, because each waits for those before it.
// So a bucket counts from the end of the previous one.
double seconds_under_way(std::span<const Interval> buckets);

// A step consists of begin_step(), mark_ready() for each gradient, begin_bucket() and watch_bucket() for each bucket,
// enter_finish(), end_bucket() for each bucket in the same order, join(), and leave_finish(). Only one thread at a time
// may use the class.
class StepClock {
 public:
  virtual ~StepClock() = default;

  // Returns the program's stream, or no stream if the parameters are in host memory.
  Stream stream() const { return stream_; }
  // The program computes on this stream from now on. In host memory, it does nothing.
  virtual void use(Stream stream) = 0;

  // Starts the time of a step.
  virtual void begin_step() = 0;
  // The gradient is complete when the work that is on the program's stream now is done.
  virtual void mark_ready(std::size_t parameter) = 0;
  // Returns the time from the beginning of the step until the gradient was complete. On a GPU, the step must be done.
  // It works until forget_gradients(), and only if the clock times gradients.
  virtual double seconds_until_ready(std::size_t parameter) const = 0;
  virtual void forget_gradients() = 0;

  // Begins the next bucket. Its gradients are complete. Returns the stream of the bucket's collectives, or no stream.
  virtual Stream begin_bucket() = 0;
  // Gives the collectives of the bucket that began last.
  virtual void watch_bucket(std::span<Work> works) = 0;
  // Ends the first bucket that has not ended. The caller has waited for its collectives.
  virtual void end_bucket() = 0;
  // Makes the program's stream wait for the buckets that have ended.
  virtual void join() = 0;

  virtual void enter_finish() = 0;
  // Counts the step. `bytes` is the number of bytes that this rank gave to collectives in the step.
  virtual void leave_finish(std::size_t bytes) = 0;
  // Leaves the step out of the statistics. The program's stream waits for the work under way.
  virtual void abandon() = 0;
  // Blocks until the work that is on the streams now is done. Throws `timeout`.
  virtual void wait(std::chrono::nanoseconds limit) = 0;

  // Returns the statistics. On a GPU, they cover the steps that the GPU has completed.
  virtual const StepStatistics& statistics() = 0;
  void reset_statistics() {
    statistics();
    statistics_ = {};
  }

 protected:
  explicit StepClock(Stream stream) : stream_(stream) {}

  Stream stream_;
  StepStatistics statistics_;
};

// Measures steps on the host.
class HostStepClock : public StepClock {
 public:
  // Times the gradients of this many parameters.
  explicit HostStepClock(std::size_t timed_gradients);

  void use(Stream) override {}
  void begin_step() override { began_ = Clock::now(); }
  void mark_ready(std::size_t parameter) override;
  double seconds_until_ready(std::size_t parameter) const override;
  void forget_gradients() override { ready_.clear(); }
  Stream begin_bucket() override;
  void watch_bucket(std::span<Work> works) override;
  void end_bucket() override {}
  void join() override {}
  void enter_finish() override { entered_ = Clock::now(); }
  void leave_finish(std::size_t bytes) override;
  void abandon() override { buckets_.clear(); }
  void wait(std::chrono::nanoseconds) override {}
  const StepStatistics& statistics() override { return statistics_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Bucket {
    Clock::time_point began;
    std::shared_ptr<std::atomic<Clock::rep>> ended;  // end of the last of the works, which other threads write
  };

  Clock::time_point began_;
  Clock::time_point entered_;
  std::vector<Bucket> buckets_;
  std::vector<Clock::time_point> ready_;  // by parameter
};

// Orders a GPU's streams in a training step, and measures the steps on the GPU. The program computes on its stream.
// Buckets are reduced behind a side stream, which waits for the gradients. At the end of the step, the program's stream
// waits for the results; no thread waits.
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

// Returns the clock for parameters in GPU memory if a stream is given, else the one for host memory. The clock times
// the gradients of the first `timed_gradients` parameters.
std::unique_ptr<StepClock> make_step_clock(const ProcessGroup& group, Stream stream, std::size_t timed_gradients);

}  // namespace ddp::internal
