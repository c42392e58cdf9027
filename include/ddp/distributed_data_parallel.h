// DistributedDataParallel: keeps the parameters of all ranks equal by averaging their gradients, bucket by bucket,
// while backward is still running.
#pragma once

#include <ddp/buffer.h>
#include <ddp/call_site.h>
#include <ddp/extension/communication_hook.h>
#include <ddp/parameter_piece.h>
#include <ddp/process_group.h>
#include <ddp/step_statistics.h>
#include <ddp/stream.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

namespace ddp {

class Accumulation;
class DistributedDataParallel;
class NoSync;

namespace internal {
class DataParallelEngine;
}  // namespace internal

// Parameters for which a step computes no gradient, or more than one.
enum class UnusedParameters : std::uint8_t {
  // Every step marks each parameter once; finish() names those that were not marked.
  refuse,
  // Steps need not mark all; what is not marked counts as zero gradients of this rank. finish() starts the buckets that
  // they are in, and tells which parameters no rank has used: unused_parameters(). PyTorch's find_unused_parameters.
  find,
  // Every step marks the same parameters, each as often as in the first step (weights that are shared, layers that are
  // computed again in backward); those that the first step does not mark are unused. The first step starts its buckets
  // in finish().
  static_graph,
};

// Gradients travel in buckets, filled from the last parameter to the first: backward reaches the last layers first.
struct BucketOptions {
  // A bucket is closed once it holds at least so many bytes; the first one is small so that communication starts early.
  std::size_t first_bytes = std::size_t{1} << 20;
  std::size_t bytes = std::size_t{25} << 20;

  // After the first synchronised step the buckets are filled anew, in the order in which rank 0's gradients became
  // ready. Once, and never with UnusedParameters::find. Gradients stay where they are.
  bool rebuild = true;
};

// How the gradients of a bucket become their mean over all ranks. One of these:

// One all-reduce a bucket.
struct AllReduce {};

// After the first step gradients travel in pieces of about so many bytes, and what the next forward pass needs first
// goes first: what backward completes last overtakes what has not been sent yet. For loops that go on as gradients come
// in: wait(), Optimizer::step(index). Host memory; not with UnusedParameters::find.
struct PriorityChunks {
  std::size_t bytes = std::size_t{4} << 20;
};

// ZeRO stage 1: an optimizer keeps state for this rank's share of the elements only. finish() gives each rank the mean
// of its own share (a reduce-scatter; the other elements of a gradient keep this rank's own values), and
// Optimizer::step() ends with all ranks getting all parameters. Buckets are not rebuilt. Host memory.
struct ShardOptimizer {};

// Or a hook, which may send less (compression_hooks.h); none is AllReduce.
using GradientExchange = std::variant<AllReduce, PriorityChunks, ShardOptimizer, std::shared_ptr<CommunicationHook>>;

// The same on all ranks.
struct DataParallelOptions {
  BucketOptions buckets = {};
  UnusedParameters unused = UnusedParameters::refuse;
  GradientExchange exchange = {};

  // Where the gradients of all parameters lie, one after the other in the parameters' order and without gaps, in memory
  // that the program owns and that must outlive this object: reduced in place. For programs with one flat array of
  // gradients; making the object leaves them as they are. Parameters are then of one type. Default: memory that the
  // ranks of a node share (ProcessGroup::allocate), which is reduced faster.
  Buffer gradients = {};

  // Parameters in GPU memory (nccl): where the program computes; default: CUDA's default stream. A gradient that is
  // marked ready is complete when what is on the stream then is done; finish() and all other functions put on it what
  // must wait, and do not block.
  Stream stream = {};

  // What is not trained but belongs to the model, as running means: given to all ranks at construction and by
  // broadcast_buffers(). Any type.
  std::vector<Tensor> model_buffers = {};

  // Parameters that are not trained (frozen): compared and given to all ranks at construction, and compared by
  // verify_parameters(). Any type.
  std::vector<Tensor> frozen = {};
};

// A parameter of a DistributedDataParallel, which must outlive it. A value; thread rules are those of the functions of
// the same names there.
class DDP_EXPORT Parameter {
 public:
  Parameter(DistributedDataParallel& data_parallel, std::size_t index)
      : data_parallel_(&data_parallel), index_(index) {}

  std::size_t index() const { return index_; }
  const Tensor& values() const;
  Buffer gradient() const;
  template <typename T>
  std::span<T> gradient() const {
    return gradient().as<T>();
  }
  void mark_ready(CallSite site = CallSite::current()) const;
  void wait() const;

 private:
  DistributedDataParallel* data_parallel_;
  std::size_t index_;
};

// Parameters are in host memory, or all of them in this rank's GPU's (nccl). There the gradients are, too;
// clip_gradients(), scale_gradients(), gradients_are_finite(), Optimizer, ShardOptimizer, PriorityChunks and the hooks
// that compress are for host memory only, and say so.
//
// Owns the gradients, unless the program does (DataParallelOptions::gradients): `gradient(i)` is a view into a bucket,
// so nothing is copied before it is reduced. Any thread may call mark_ready(); the other functions belong to one
// thread. The parameters' memory must outlive it.
//
//   ddp::DistributedDataParallel data_parallel(world, {{"weight", weight, {64, 32}}, {"bias", bias, {64}}});
//   for (const auto& batch : batches) {
//     data_parallel.zero_gradients();
//     backward(batch, data_parallel.gradient<float>(0), data_parallel.gradient<float>(1));
//     data_parallel.mark_ready(1);         // in the order in which backward completes them
//     data_parallel.mark_ready(0);
//     data_parallel.finish();              // gradients now hold the mean over all ranks
//     optimizer.step();
//   }
class DDP_EXPORT DistributedDataParallel {
 public:
  // Collective. Checks that all ranks registered the same names, types and shapes in the same order, then gives every
  // rank the values of rank 0. Throws mismatch, naming the ranks and the first difference, on every rank. Parameters
  // are of a floating-point type.
  DistributedDataParallel(const ProcessGroup& group, std::vector<Tensor> parameters, DataParallelOptions options = {},
                          CallSite site = CallSite::current());
  // Waits for reductions under way.
  ~DistributedDataParallel();
  DistributedDataParallel(const DistributedDataParallel&) = delete;
  DistributedDataParallel& operator=(const DistributedDataParallel&) = delete;

  const ProcessGroup& group() const;
  std::span<const Tensor> parameters() const;

  // The parameter of this name or number. Throws invalid_argument if there is none.
  //
  //   const ddp::Parameter weight = data_parallel.parameter("weight");
  //   backward(batch, weight.gradient<float>());
  //   weight.mark_ready();
  Parameter parameter(std::string_view name);
  Parameter parameter(std::size_t index);

  // The gradient of parameter `index`, same count and type; it never moves. Throws invalid_argument if there is no such
  // parameter, or T is not its type.
  Buffer gradient(std::size_t index) const;
  template <typename T>
  std::span<T> gradient(std::size_t index) const {
    return gradient(index).as<T>();
  }

  // Sets every gradient to 0. Call it before backward adds to them. Throws invalid_argument in the middle of a step
  // (finish() or abandon_step() end it).
  void zero_gradients();

  // Says that the gradient of parameter `index` is complete on this rank for this step. When all of a bucket's
  // gradients are, and all earlier buckets have started, the bucket's all-reduce starts. Throws invalid_argument if the
  // parameter was already ready in this step.
  void mark_ready(std::size_t index, CallSite site = CallSite::current());

  // Waits until the gradient of parameter `index` is averaged, while others may still be under way: the next forward
  // pass can begin with it. All parameters must have been marked ready; finish() must follow before the next step's
  // gradients. Throws invalid_argument if the gradient was not marked, or the step is not synchronised; and as
  // finish().
  //
  //   backward, with mark_ready(i) for all;
  //   for (i = 0; i < n; ++i) { optimizer.step(i); forward(layer i) }     // step(i) waits for gradient i
  //   data_parallel.finish();
  void wait(std::size_t index);

  // Waits until all buckets are averaged, and begins the next step. Each rank's gradients are divided by the number of
  // ranks and then summed, as in PyTorch. Throws invalid_argument, naming the parameters, if some were never marked;
  // otherwise what the reductions throw, and after that mark_ready() throws the same.
  void finish(CallSite site = CallSite::current());

  // Gives up a step in the middle (an exception in backward): what is under way is waited for, the step does not count,
  // and gradients are whatever they are; zero them. Collective if the step is synchronised: all ranks give it up. Where
  // the others end the step as usual, or another one has more of it under way, they and this rank throw mismatch, or
  // time out between nodes. Outside a step nothing.
  void abandon_step(CallSite site = CallSite::current());

  // Steps that are not synchronised while the result lives; the gradients of each add up on this rank. Take it before
  // the step's first mark_ready(). The gradients are divided by the number of ranks only: where they are to be the mean
  // over several steps, too, use accumulate().
  //
  //   { auto local = data_parallel.no_sync(); backward(first_half); data_parallel.finish(); }
  //   backward(second_half); data_parallel.finish();
  NoSync no_sync();

  // Whether the next finish() synchronises: not within no_sync() or before a window's end.
  bool synchronizes() const;

  // Windows of `micro_steps` steps, of which the last is synchronised. See Accumulation. Throws invalid_argument while
  // another one lives.
  Accumulation accumulate(std::int64_t micro_steps);

  // Throws invalid_argument, with `what` as its subject, unless the gradients are the mean over all ranks: after
  // finish() without no_sync(), before the next zero_gradients() or mark_ready(). An optimizer that asks this never
  // steps on one rank's own gradients.
  void require_synchronized(std::string_view what) const;

  // Scales all gradients by max_norm / (norm + 1e-6) if that is less than 1, and returns the norm: the square root of
  // the sum of the squares of all gradients (as torch.nn.utils.clip_grad_norm_). The same on all ranks, but with
  // LocalSgd each rank's own; collective with ShardOptimizer. One that is not finite is returned, and nothing scaled.
  // Throws as require_synchronized(), or invalid_argument if max_norm is not positive.
  double clip_gradients(double max_norm, CallSite site = CallSite::current());

  // Multiplies all gradients.
  void scale_gradients(double factor);

  // Whether no gradient is infinite or NaN, on any rank. The same on all ranks; collective with ShardOptimizer and
  // LocalSgd. Throws as require_synchronized().
  bool gradients_are_finite(CallSite site = CallSite::current());

  // Collective. Gives all ranks rank `root`'s model buffers (DataParallelOptions). Before a forward that reads them.
  void broadcast_buffers(int root = 0, CallSite site = CallSite::current());

  // With UnusedParameters::find or static_graph: the parameters that no rank has used up to the last finish(),
  // ascending. An optimizer should leave them as they are.
  std::span<const std::size_t> unused_parameters() const;

  // What this rank's optimizer is to update: all parameters, or its shares of them (ShardOptimizer).
  std::vector<ParameterPiece> owned() const;

  // With ShardOptimizer, collective: gives every rank what the others have in the pieces that they own. An optimizer
  // ends its step with it. Else nothing.
  void share_parameters(CallSite site = CallSite::current());

  std::size_t bucket_count() const;
  // By bucket, in the order in which they are reduced: the parameters in it.
  std::vector<std::vector<std::size_t>> buckets() const;

  // Of the synchronised steps so far, or since reset_statistics().
  const StepStatistics& statistics() const;
  void reset_statistics();

  // Collective. The hash of this rank's parameter bytes, frozen ones included; throws mismatch, naming the ranks,
  // unless all ranks have the same.
  std::uint64_t verify_parameters(CallSite site = CallSite::current());

  // What the library's other parts work on.
  internal::DataParallelEngine& engine() const { return *engine_; }

 private:
  std::shared_ptr<internal::DataParallelEngine> engine_;
};

}  // namespace ddp
