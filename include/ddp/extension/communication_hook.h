// A CommunicationHook computes the mean of a bucket's gradients over all ranks.
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

// Describes a bucket whose gradients are complete on this rank. The views are valid until the hook's finish() returns.
struct GradientBucket {
  std::size_t index = 0;  // bucket 0 is reduced first
  std::string name = {};  // name of its collectives, which ranks compare: "bucket 0: fc.weight …, step 12"
  std::span<const Tensor> gradients = {};  // names and shapes of their parameters
  std::span<const Buffer> ranges = {};     // the same memory, including padding, in as few pieces as possible
  double factor = 1;                       // the mean is `factor` times the sum over all ranks
  Stream stream = {};                      // for GPU memory, CallOptions::stream of the hook's collectives
};

// Describes the operations that a hook has begun.
struct Communication {
  std::vector<Work> works = {};
  std::size_t bytes = 0;  // bytes that this rank passed to collectives, for the statistics
};

// The library calls both functions for the buckets in order, which is the same on all ranks. Any thread that calls
// mark_ready() may call start(), one at a time, while others may still compute gradients of later buckets. Both may use
// `group`'s collectives, the same ones on every rank. If they throw, the step ends.
//
// A hook keeps state (errors that are fed back, matrices), so it serves one DistributedDataParallel.
//
//   class Half : public ddp::CommunicationHook { … };
//   ddp::DistributedDataParallel data_parallel(world, parameters, {.exchange = std::make_shared<Half>()});
class DDP_EXPORT CommunicationHook {
 public:
  virtual ~CommunicationHook();

  // Begins the operations, and does not wait for them.
  virtual Communication start(const ProcessGroup& group, const GradientBucket& bucket) = 0;

  // Runs when the operations that start() began are done. Afterwards bucket.ranges hold the mean. It may communicate
  // more, and wait for that. Returns the bytes that it passed to collectives.
  virtual std::size_t finish(const ProcessGroup& group, const GradientBucket& bucket);
};

// Makes the hook that computes the mean in the gradients' own type. DistributedDataParallel does the same without a
// hook.
DDP_EXPORT std::shared_ptr<CommunicationHook> make_mean_hook();

}  // namespace ddp
