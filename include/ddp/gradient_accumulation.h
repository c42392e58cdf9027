// NoSync and Accumulation: several backward passes for one synchronisation.
#pragma once

#include <ddp/distributed_data_parallel.h>

#include <cstdint>

namespace ddp {

// While it lives, finish() does not synchronise. Made by DistributedDataParallel::no_sync(), which must outlive it; may
// be nested.
class [[nodiscard]] DDP_EXPORT NoSync {
 public:
  ~NoSync();
  NoSync(const NoSync&) = delete;
  NoSync& operator=(const NoSync&) = delete;

 private:
  friend class DistributedDataParallel;
  explicit NoSync(DistributedDataParallel& data_parallel);
  DistributedDataParallel& data_parallel_;
};

// Counts micro-steps. Gradients of a window add up on each rank and are synchronised once, at its end; then they are
// the mean over all ranks and all micro-steps of the window: the loss is not to be scaled. A window that is cut short
// by the end of the data is synchronised like any other, and divided by the micro-steps that it has.
//
// Made by DistributedDataParallel::accumulate(), which must outlive it. All ranks end their windows alike; ranks with
// different numbers of batches: see join.h. One thread.
//
//   ddp::Accumulation window = data_parallel.accumulate(4);
//   for (std::size_t i = 0; i < batches.size(); ++i) {
//     window.begin(i + 1 == batches.size());     // zeroes the gradients when a window begins
//     backward(batches[i]);                      // marks gradients ready
//     if (window.finish()) optimizer.step();
//   }
class [[nodiscard]] DDP_EXPORT Accumulation {
 public:
  // A window that has not ended leaves its gradients as they are; the next step is synchronised.
  ~Accumulation();
  Accumulation(const Accumulation&) = delete;
  Accumulation& operator=(const Accumulation&) = delete;

  // Begins a micro-step. `is_last`: no other follows, so the window ends with it. If the one before was not finished (a
  // batch that was skipped), it does not count.
  void begin(bool is_last = false);
  // Whether this micro-step ends its window.
  bool synchronizes() const { return synchronizes_; }
  // Ends the micro-step, as DistributedDataParallel::finish(), unless that was done since begin() (libtorch's
  // backward() does it). True if the window has ended.
  bool finish(CallSite site = CallSite::current());

  // Where the end of the data could not be foreseen: ends a window that has begun. False if there is none.
  bool flush(CallSite site = CallSite::current());

 private:
  friend class DistributedDataParallel;
  Accumulation(DistributedDataParallel& data_parallel, std::int64_t micro_steps);
  void end_window();

  DistributedDataParallel& data_parallel_;
  const std::int64_t micro_steps_;
  std::int64_t done_ = 0;             // micro-steps of this window, the current one included
  std::int64_t finished_before_ = 0;  // the steps that were finished at begin()
  bool synchronizes_ = false;
  bool is_open_ = false;  // between begin() and finish()
};

}  // namespace ddp
