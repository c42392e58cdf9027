// FrameworkAdapter gives wrappers of a framework's modules access beyond the public interface of
// DistributedDataParallel. Programs do not need it. ddp/libtorch.h is such a wrapper.
#pragma once

#include <ddp/distributed_data_parallel.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

namespace ddp {

// Keeps a handle of a DistributedDataParallel. Functions that it sets must not keep a handle, or the object never ends.
// A null function removes the previous one. Use it from one thread.
class DDP_EXPORT FrameworkAdapter {
 public:
  explicit FrameworkAdapter(const DistributedDataParallel& data_parallel) : data_parallel_(data_parallel) {}

  // Sets a function that is called when a synchronised step has ended, also if Join runs the step for a rank without
  // data. The function must set the framework's gradients to those of the buckets. It runs on the thread that ends the
  // step.
  void on_step_end(std::function<void()> ended);

  // If no rank used a parameter in a step, some ranks may still have an earlier gradient for it. An optimizer treats
  // the two cases differently. To make all ranks agree, `has_gradient` is called when a synchronised step ends, on its
  // thread. dropped_parameters() returns, in ascending order, those for which no rank has a gradient.
  void tell_gradients(std::function<bool(std::size_t parameter)> has_gradient);
  std::span<const std::size_t> dropped_parameters() const;

  // Declares that the wrapper's forward() gives all ranks rank 0's buffers. A rank without data has no forward(). With
  // Join, begin_step() therefore gives them the buffers of the highest rank that has data, and forward() must not
  // (is_joined()).
  void forward_broadcasts_buffers();
  bool is_joined() const;

  // For a framework that computes on a stream of its own choice. It replaces DataParallelOptions::stream from now on.
  // Call it before mark_ready(), finish() and the other functions, on their thread, with the stream on which the
  // framework computes then. A step may use several streams: each bucket waits for all streams on which its gradients
  // were marked. Only the last stream waits for the results.
  void use_stream(Stream stream);

  // Returns an owner of the gradients' memory, which lives as long as the owner or the DistributedDataParallel,
  // whichever is longer.
  std::shared_ptr<void> gradient_memory() const;

  bool step_began() const;

 private:
  const DistributedDataParallel data_parallel_;
};

}  // namespace ddp
