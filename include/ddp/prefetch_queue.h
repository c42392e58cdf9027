// PrefetchQueue: work that is done a little ahead of the one who needs it. What DataLoader is made on.
#pragma once

#include <ddp/export.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>

namespace ddp {

// Jobs 0, 1, … jobs-1, each of which makes one result. Threads of the queue's own begin them in their order, up to
// `ahead` jobs further than the consumer is; the consumer gets the results in the same order, whichever thread ends
// first. So no more than `ahead` results exist besides those that the consumer has. One consumer.
class DDP_EXPORT PrefetchQueue {
 public:
  // Called by several threads at once, for a different job each; the result must not be null. When the queue is being
  // destroyed, a stop is requested: then it should return at once, whatever it likes.
  using Job = std::function<std::shared_ptr<void>(std::int64_t number, std::stop_token stop)>;

  struct Options {
    std::int64_t jobs = 0;
    int ahead = 1;    // 1 or more
    int threads = 1;  // 0: next() does the job, and none is done ahead
  };

  // Starts the threads; no more than can have something to do. Throws unavailable if the system refuses one.
  PrefetchQueue(Options options, Job job);
  // Waits for the jobs under way to stop, and begins no other.
  ~PrefetchQueue();
  PrefetchQueue(const PrefetchQueue&) = delete;
  PrefetchQueue& operator=(const PrefetchQueue&) = delete;

  // The next job's result; waits for it. Null after the last. Throws what the job threw; the jobs before it are not
  // affected, none after it is begun, and each further call throws the same again.
  std::shared_ptr<void> next();

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace ddp
