// CommunicationHook: how the gradients of a bucket become their mean over all ranks.
#pragma once

#include <ddp/buffer.h>
#include <ddp/process_group.h>
#include <ddp/work.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ddp {

// A bucket whose gradients are complete on this rank. The views are valid until the hook's finish() returns.
struct GradientBucket {
  std::size_t index = 0;                   // 0 is reduced first
  std::string name = {};                   // "bucket 0: fc.weight …, step 12", for its collectives: ranks compare it
  std::span<const Tensor> gradients = {};  // named and shaped as their parameters
  std::span<const Buffer> ranges = {};     // the same memory, with the padding between, in as few pieces as possible
  double factor = 1;                       // the mean is `factor` times the sum over all ranks
  Stream stream = {};                      // GPU memory: CallOptions::stream of the hook's collectives
};

// What a hook has begun.
struct Communication {
  std::vector<Work> works = {};
  std::size_t bytes = 0;  // that this rank gave to collectives; for the statistics
};

// Both functions are called for the buckets in their order, the same on all ranks; start() by any thread that calls
// mark_ready(), one at a time, while others may still be computing gradients of later buckets. They may use `group`'s
// collectives, the same ones on every rank. What they throw ends the step.
//
// A hook keeps state (errors that are fed back, matrices): it serves one DistributedDataParallel.
//
//   class Half : public ddp::CommunicationHook { … };
//   ddp::DistributedDataParallel data_parallel(world, parameters, {.exchange = std::make_shared<Half>()});
class DDP_EXPORT CommunicationHook {
 public:
  virtual ~CommunicationHook();

  // Begins, and does not wait.
  virtual Communication start(const ProcessGroup& group, const GradientBucket& bucket) = 0;

  // When what start() began is done: afterwards bucket.ranges hold the mean. May communicate more, and wait for it.
  // Returns the bytes that it gave to collectives.
  virtual std::size_t finish(const ProcessGroup& group, const GradientBucket& bucket);
};

// The mean, in the gradients' own type. What DistributedDataParallel does without a hook.
DDP_EXPORT std::shared_ptr<CommunicationHook> make_mean_hook();

}  // namespace ddp
