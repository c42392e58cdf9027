// PrefetchQueue runs jobs slightly ahead of their consumer. DataLoader is built on it.
#pragma once

#include <ddp/export.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>

namespace ddp {

// Runs jobs 0, 1, … jobs-1, each of which makes one result. The queue's own threads begin them in order, up to `ahead`
// jobs before the consumer. The consumer gets the results in the same order, whichever thread ends first. Therefore no
// more than `ahead` results exist besides those that the consumer has. There must be only one consumer.
class DDP_EXPORT PrefetchQueue {
 public:
  // Several threads call it at the same time, each for a different job. The result must not be null. When the queue is
  // destroyed, it requests a stop. The job should then return at once, with any result.
  using Job = std::function<std::shared_ptr<void>(std::int64_t number, std::stop_token stop)>;

  struct Options {
    std::int64_t jobs = 0;
    int ahead = 1;    // at least 1
    int threads = 1;  // with 0, next() runs the job, and none is run ahead
  };

  // Starts the threads, but no more than there are jobs for. Throws unavailable if the system refuses one.
  PrefetchQueue(Options options, Job job);
  // Waits for the running jobs to stop, and begins no other.
  ~PrefetchQueue();
  PrefetchQueue(const PrefetchQueue&) = delete;
  PrefetchQueue& operator=(const PrefetchQueue&) = delete;

  // Waits for the next job's result and returns it. Returns null after the last. If the job threw, it throws the same
  // exception. Earlier jobs are not affected, no later job is begun, and each further call throws the same again.
  std::shared_ptr<void> next();

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace ddp
