// Join: training on when some ranks have run out of data.
#pragma once

#include <ddp/distributed_data_parallel.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace ddp {

// The same on all ranks.
struct JoinOptions {
  // Gradients are divided by the number of all ranks, also when some have no data any more: each sample counts as much
  // as before. False: by the number of ranks that still have data; where windows end, by the micro-steps that there
  // were on all ranks together.
  bool divide_by_initial_size = true;

  // begin_step() throws, on all ranks and in the same step, when the first rank has run out. For models with
  // collectives of their own in forward.
  bool throw_on_early_end = false;

  // begin_step() gives all ranks the buffers (DataParallelOptions::model_buffers) of the highest rank that has data.
  // Always with ddp/libtorch.h, whose forward() does not do it while there is a Join.
  bool broadcast_buffers = false;
};

// Ranks with fewer batches than others would leave these waiting in a collective. With Join a rank that has run out
// takes part in what the others do, with gradients of 0, until none has data.
//
// `step` is what follows each synchronised finish() in the program's loop: optimizer.step(). A rank that has run out
// calls it when the others do, so that parameters and moments stay equal on all ranks. Without it the parameters and
// buffers of such a rank are replaced at the end by those of the last rank that trained; its optimizer's moments are
// not.
//
// Windows (accumulate) end in the same step on all ranks: call Accumulation::begin() without is_last, and not flush().
// What a rank has of a window when its data end is part of the window's end on the others, or, if it is the last, of a
// step that finish() adds (with `step`).
//
// Not with LocalSgd, whose ranks step by themselves: begin_step() throws invalid_argument.
//
// All ranks make one. One thread. What it refers to must outlive it.
//
//   ddp::Join join(data_parallel, [&] { optimizer.step(); });
//   for (const Batch& batch : my_batches) {
//     join.begin_step();                       // after Accumulation::begin(), where there is one
//     …                                        // backward, data_parallel.finish(), optimizer.step()
//   }
//   join.finish();                             // returns when every rank has got here
class DDP_EXPORT Join {
 public:
  // Throws invalid_argument with ShardOptimizer but without `step`: every rank owns a part of the parameters.
  explicit Join(DistributedDataParallel& data_parallel, std::function<void()> step = nullptr, JoinOptions options = {});
  ~Join();
  Join(const Join&) = delete;
  Join& operator=(const Join&) = delete;

  // Before each step, also one without synchronisation (no_sync, accumulate). Throws `aborted`, naming the ranks that
  // have run out, with throw_on_early_end; `mismatch` if of the ranks that have data some synchronise and some do not.
  void begin_step(CallSite site = CallSite::current());

  // This rank has run out. Throws what the others' steps throw here.
  void finish(CallSite site = CallSite::current());

  // Ranks that had data in the last step, ascending.
  const std::vector<int>& active_ranks() const { return active_; }

 private:
  enum class Turn : std::uint8_t { ended, local, synchronised };
  struct Round {
    Turn turn = Turn::ended;  // of those that have data
    std::int64_t window_steps = 0;
  };
  Round announce(Turn turn, std::int64_t window_steps);
  void shadow(std::int64_t window_steps);
  void take_from_last();

  DistributedDataParallel& data_parallel_;
  const std::function<void()> step_;
  const JoinOptions options_;
  std::int64_t steps_ = 0;
  bool ended_ = false;
  std::vector<int> active_;
};

}  // namespace ddp
