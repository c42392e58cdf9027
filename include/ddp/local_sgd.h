// LocalSgd: ranks step on their own gradients and average their parameters now and then.
#pragma once

#include <ddp/distributed_data_parallel.h>

#include <array>
#include <cstdint>

namespace ddp {

struct LocalSgdOptions {
  std::int64_t period = 8;        // steps from one average of the parameters to the next
  std::int64_t warmup_steps = 0;  // before them gradients are averaged in every step, as without LocalSgd
};

// While it lives, finish() averages gradients during the warm-up only; afterwards each rank's optimizer steps on its
// own gradients, and step() averages the parameters at the end of each period: communication shrinks by the period.
// Lin, Stich, Patel, Jaggi: Don't use large mini-batches, use local SGD, arXiv:1808.07217. The same on all ranks; one
// thread; the DistributedDataParallel must outlive it, and must not have ShardOptimizer (invalid_argument).
//
//   ddp::LocalSgd local(data_parallel, {.period = 8, .warmup_steps = 100});
//   …
//   data_parallel.finish();
//   optimizer.step();
//   local.step();
class DDP_EXPORT LocalSgd {
 public:
  LocalSgd(DistributedDataParallel& data_parallel, LocalSgdOptions options);
  // Does not average: call average() at the end of training.
  ~LocalSgd();
  LocalSgd(const LocalSgd&) = delete;
  LocalSgd& operator=(const LocalSgd&) = delete;

  // After each step of the optimizer; collective where a period ends. True if the parameters were averaged.
  bool step(CallSite site = CallSite::current());

  // Collective. The mean of the parameters over all ranks, on all ranks.
  void average(CallSite site = CallSite::current());

  // For checkpoints: "local_sgd", the steps so far. Call follow() after it was loaded. Save after average(): a
  // checkpoint holds one copy of what all ranks have alike, and between averages parameters are each rank's own. An
  // optimizer's moments are so always; those that one rank wrote are everybody's afterwards, and the training is not
  // the same bit by bit.
  Tensor state() { return {"local_sgd", steps_, {1}}; }
  void follow();

 private:
  DistributedDataParallel& data_parallel_;
  const LocalSgdOptions options_;
  std::array<std::int64_t, 1> steps_ = {0};
};

}  // namespace ddp
