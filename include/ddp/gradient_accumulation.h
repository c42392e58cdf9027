// NoSync and Accumulation combine several backward passes into one synchronisation.
#pragma once

#include <ddp/distributed_data_parallel.h>

#include <cstdint>

namespace ddp {

// While it lives, finish() does not synchronise. DistributedDataParallel::no_sync() makes it. It keeps a handle of the
// DistributedDataParallel, and may be nested.
class [[nodiscard]] DDP_EXPORT NoSync {
 public:
  ~NoSync();
  NoSync(const NoSync&) = delete;
  NoSync& operator=(const NoSync&) = delete;

 private:
  friend class DistributedDataParallel;
  explicit NoSync(const DistributedDataParallel& data_parallel);
  const DistributedDataParallel data_parallel_;
};

// Counts micro-steps. The gradients of a window add up on each rank and are synchronised once, at its end. They are
// then the mean over all ranks and all micro-steps of the window, so the program must not scale the loss. If the data
// end in the middle of a window, the window is synchronised like any other, and divided by the micro-steps that it has.
//
// DistributedDataParallel::accumulate() makes it, and it keeps a handle of the DistributedDataParallel. All ranks must
// end their windows in the same step. For ranks with different numbers of batches see join.h. Use it from one thread.
//
//   ddp::Accumulation window = data_parallel.accumulate(4);
//   for (std::size_t i = 0; i < batches.size(); ++i) {
//     window.begin(i + 1 == batches.size());     // zeroes the gradients when a window begins
//     backward(batches[i]);                      // marks gradients ready
//     if (window.finish()) optimizer.step();
//   }
class [[nodiscard]] DDP_EXPORT Accumulation {
 public:
  // If a window has not ended, its gradients stay unchanged, and the next step is synchronised.
  ~Accumulation();
  Accumulation(const Accumulation&) = delete;
  Accumulation& operator=(const Accumulation&) = delete;

  // Begins a micro-step. If `is_last`, no other micro-step follows, so the window ends with it. If the previous one was
  // not finished (a skipped batch), it does not count.
  void begin(bool is_last = false);
  // Returns whether this micro-step ends its window.
  bool synchronizes() const { return synchronizes_; }
  // Ends the micro-step like DistributedDataParallel::finish(), unless that was called since begin() (libtorch's
  // backward() calls it). Returns true if the window has ended.
  bool finish(CallSite site = CallSite::current());

  // Ends a window that has begun, for programs that cannot foresee the end of the data. Returns false if there is none.
  bool flush(CallSite site = CallSite::current());

 private:
  friend class DistributedDataParallel;
  Accumulation(const DistributedDataParallel& data_parallel, std::int64_t micro_steps);
  void end_window();

  const DistributedDataParallel data_parallel_;
  const std::int64_t micro_steps_;
  std::int64_t done_ = 0;             // micro-steps of this window, including the current one
  std::int64_t finished_before_ = 0;  // number of finished steps at begin()
  bool synchronizes_ = false;
  bool is_open_ = false;  // true between begin() and finish()
};

}  // namespace ddp
