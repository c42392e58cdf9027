// FrameworkAdapter: what a wrapper of a framework's modules needs of DistributedDataParallel beside its public face.
// Programs do not need it; ddp/libtorch.h is one.
#pragma once

#include <ddp/distributed_data_parallel.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

namespace ddp {

// Refers to a DistributedDataParallel, which must outlive it. One thread.
class DDP_EXPORT FrameworkAdapter {
 public:
  explicit FrameworkAdapter(DistributedDataParallel& data_parallel) : data_parallel_(data_parallel) {}

  // Called when a synchronised step has ended, also one that Join shadows for a rank without data: the framework's
  // gradients are then to be made those of the buckets. On the thread that ends the step.
  void on_step_end(std::function<void()> ended);

  // Of a parameter that no rank used in a step, some may have a gradient that is kept from before, and some may not; an
  // optimizer treats the two differently. So that it does the same on all ranks: `has_gradient` is asked when a
  // synchronised step ends, on its thread, and those for which no rank has one are dropped_parameters(), ascending.
  void tell_gradients(std::function<bool(std::size_t parameter)> has_gradient);
  std::span<const std::size_t> dropped_parameters() const;

  // The wrapper's forward() gives all ranks rank 0's buffers. A rank without data has no forward(): with Join,
  // begin_step() gives them those of the highest rank that has data, and forward() must not (is_joined()).
  void forward_broadcasts_buffers();
  bool is_joined() const;

  // The gradients' memory lives as long as this, or the DistributedDataParallel if that is longer.
  std::shared_ptr<void> gradient_memory() const;

  bool step_began() const;

 private:
  DistributedDataParallel& data_parallel_;
};

}  // namespace ddp
