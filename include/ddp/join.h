// Join lets training continue when some ranks have run out of data.
#pragma once

#include <ddp/distributed_data_parallel.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace ddp {

// All ranks must use the same options.
struct JoinOptions {
  // If true, gradients are divided by the number of all ranks, even when some have no data left, so that each sample
  // keeps its weight. If false, they are divided by the number of ranks that still have data. At the end of a window
  // they are then divided by the number of micro-steps on all ranks together.
  bool divide_by_initial_size = true;

  // If true, begin_step() throws, on all ranks and in the same step, when the first rank has run out of data. It is
  // meant for models with collectives of their own in forward.
  bool throw_on_early_end = false;

  // If true, begin_step() gives all ranks the buffers (DataParallelOptions::model_buffers) of the highest rank that has
  // data. With ddp/libtorch.h it always does, because forward() does not while a Join exists.
  bool broadcast_buffers = false;
};

// Without Join, ranks with fewer batches would leave the others waiting in a collective. With Join a rank that has run
// out of data takes part in the others' collectives, with gradients of 0, until no rank has data.
//
// `step` is what the program's loop does after each synchronised finish(): optimizer.step(). A rank without data calls
// it when the others do, so that parameters and moments stay equal on all ranks. Without `step`, the parameters and
// buffers of such a rank are replaced at the end by those of the last rank that trained. Its optimizer's moments are
// not replaced.
//
// Accumulation windows (accumulate) must end in the same step on all ranks: call Accumulation::begin() without is_last,
// and do not call flush(). If a rank's data end within a window, its gradients of that window are part of the window's
// end on the others. If it is the last rank with data, they are part of a step that finish() adds (with `step`).
//
// Join does not work with LocalSgd, whose ranks step by themselves: begin_step() throws invalid_argument.
//
// All ranks must make one. Use it from one thread. It keeps a handle of the DistributedDataParallel.
//
//   ddp::Join join(data_parallel, [&] { optimizer.step(); });
//   for (const Batch& batch : my_batches) {
//     join.begin_step();                       // after Accumulation::begin(), if it is used
//     …                                        // backward, data_parallel.finish(), optimizer.step()
//   }
//   join.finish();                             // returns when every rank has called it
class DDP_EXPORT Join {
 public:
  // Throws invalid_argument with ShardOptimizer but without `step`, because every rank owns a part of the parameters.
  explicit Join(const DistributedDataParallel& data_parallel, std::function<void()> step = nullptr,
                JoinOptions options = {});
  ~Join();
  Join(const Join&) = delete;
  Join& operator=(const Join&) = delete;

  // Call it before each step, including steps without synchronisation (no_sync, accumulate). With throw_on_early_end it
  // throws `aborted`, naming the ranks that have run out of data. Throws `mismatch` if only some of the ranks that have
  // data synchronise.
  void begin_step(CallSite site = CallSite::current());

  // Call it when this rank has run out of data. Errors of the others' steps are thrown here.
  void finish(CallSite site = CallSite::current());

  // Returns the ranks that had data in the last step, in ascending order.
  const std::vector<int>& active_ranks() const { return active_; }

 private:
  enum class Turn : std::uint8_t { ended, local, synchronised };
  struct Round {
    Turn turn = Turn::ended;  // turn of the ranks that have data
    std::int64_t window_steps = 0;
  };
  Round announce(Turn turn, std::int64_t window_steps);
  void shadow(std::int64_t window_steps);
  void take_from_last();

  const DistributedDataParallel data_parallel_;
  const std::function<void()> step_;
  const JoinOptions options_;
  std::int64_t steps_ = 0;
  bool ended_ = false;
  std::vector<int> active_;
};

}  // namespace ddp
