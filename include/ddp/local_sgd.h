// LocalSgd lets ranks step on their own gradients and average their parameters periodically.
#pragma once

#include <ddp/distributed_data_parallel.h>

#include <array>
#include <cstdint>

namespace ddp {

struct LocalSgdOptions {
  std::int64_t period = 8;        // steps between two averages of the parameters
  std::int64_t warmup_steps = 0;  // steps at the start in which gradients are averaged, as without LocalSgd
};

// While it lives, finish() averages gradients during the warm-up only. Afterwards each rank's optimizer steps on its
// own gradients. step() averages the parameters at the end of each period, which divides the communication by the
// period. The method is that of Lin, Stich, Patel, Jaggi: Don't use large mini-batches, use local SGD,
// arXiv:1808.07217. All ranks must use the same options. Use it from one thread. It keeps a handle of the
// DistributedDataParallel, which must not have ShardOptimizer (invalid_argument).
//
//   ddp::LocalSgd local(data_parallel, {.period = 8, .warmup_steps = 100});
//   …
//   data_parallel.finish();
//   optimizer.step();
//   local.step();
class DDP_EXPORT LocalSgd {
 public:
  LocalSgd(const DistributedDataParallel& data_parallel, LocalSgdOptions options);
  // The destructor does not average, so call average() at the end of training.
  ~LocalSgd();
  LocalSgd(const LocalSgd&) = delete;
  LocalSgd& operator=(const LocalSgd&) = delete;

  // Call it after each step of the optimizer. The call is collective at the end of a period. Returns true if the
  // parameters were averaged.
  bool step(CallSite site = CallSite::current());

  // This is a collective call. It sets the parameters on all ranks to their mean over all ranks.
  void average(CallSite site = CallSite::current());

  // Returns the steps so far as the tensor "local_sgd", for checkpoints. Call follow() after it was loaded. Save after
  // average(), because a checkpoint holds one copy of the parameters, and between averages each rank has its own. The
  // optimizer's moments always differ between ranks. After a load all ranks have the moments that one rank wrote, so
  // the resumed run is not bit-identical.
  Tensor state() { return {"local_sgd", steps_, {1}}; }
  void follow();

 private:
  const DistributedDataParallel data_parallel_;
  const LocalSgdOptions options_;
  std::array<std::int64_t, 1> steps_ = {0};
};

}  // namespace ddp
