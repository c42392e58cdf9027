// DistributedDataParallel: keeps the parameters of all ranks equal by averaging their gradients, bucket by bucket,
// while backward is still running.
#pragma once

#include <ddp/buffer.h>
#include <ddp/process_group.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace ddp {

struct DataParallelOptions {
  // Gradients travel in buckets, filled from the last parameter to the first: backward reaches the last layers first. A
  // bucket is closed once it holds at least so many bytes; the first one is small so that communication starts early.
  std::size_t first_bucket_bytes = std::size_t{1} << 20;
  std::size_t bucket_bytes = std::size_t{25} << 20;
};

// Owns the gradients: `gradient(i)` is a view into a bucket, so nothing is copied before it is reduced. Not thread-safe
// but for ready(), which any thread may call. The group and the parameters' memory must outlive it.
//
//   ddp::DistributedDataParallel data_parallel(world, {{"weight", weight, {64, 32}}, {"bias", bias, {64}}});
//   for (const auto& batch : batches) {
//     data_parallel.zero_gradients();
//     backward(batch, data_parallel.gradient<float>(0), data_parallel.gradient<float>(1));
//     data_parallel.ready(1);              // in the order in which backward completes them
//     data_parallel.ready(0);
//     data_parallel.finish();              // gradients now hold the mean over all ranks
//     optimizer.step();
//   }
class DDP_EXPORT DistributedDataParallel {
 public:
  // Collective. Checks that all ranks registered the same names, types and shapes in the same order, then gives every
  // rank the values of rank 0. Throws mismatch, naming the ranks and the first difference, on every rank.
  DistributedDataParallel(ProcessGroup& group, std::vector<Tensor> parameters, DataParallelOptions options = {});
  // Waits for reductions under way.
  ~DistributedDataParallel();
  DistributedDataParallel(const DistributedDataParallel&) = delete;
  DistributedDataParallel& operator=(const DistributedDataParallel&) = delete;

  std::span<const Tensor> parameters() const;

  // The gradient of parameter `index`, same count and type, in memory owned by this object. Throws invalid_argument if
  // there is no such parameter, or T is not its type.
  Buffer gradient(std::size_t index) const;
  template <typename T>
  std::span<T> gradient(std::size_t index) const {
    return gradient(index).as<T>();
  }

  // Sets every gradient to 0. Call it before backward adds to them.
  void zero_gradients();

  // Says that the gradient of parameter `index` is complete on this rank for this step. When all of a bucket's
  // gradients are, and all earlier buckets have started, the bucket's all-reduce starts. Throws invalid_argument if the
  // parameter was already ready in this step.
  void ready(std::size_t index);

  // Waits until all buckets are averaged, and begins the next step. Throws invalid_argument, naming the parameters, if
  // some were never ready; otherwise what the reductions throw, and after that every ready() throws the same.
  void finish();

  std::size_t bucket_count() const;

  // Collective. The hash of this rank's parameter bytes; throws mismatch, naming the ranks, unless all ranks have the
  // same.
  std::uint64_t verify_parameters();

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace ddp
