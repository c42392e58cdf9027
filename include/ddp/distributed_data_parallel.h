// DistributedDataParallel keeps the parameters of all ranks equal. It averages their gradients, bucket by bucket, while
// backward is still running.
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
class NoSync;
class Parameter;

namespace internal {
class DataParallelEngine;
}  // namespace internal

// Selects how a step treats parameters for which it computes no gradient, or more than one.
enum class UnusedParameters : std::uint8_t {
  // Every step must mark each parameter once. finish() names the parameters that were not marked.
  refuse,
  // Steps need not mark all parameters. An unmarked parameter counts as a zero gradient of this rank. finish() starts
  // the buckets with unmarked parameters. unused_parameters() returns the parameters that no rank has used. This is
  // PyTorch's find_unused_parameters. On a GPU, finish() then blocks, because the ranks compare on the host.
  find,
  // Every step must mark the same parameters, each as often as in the first step (shared weights, layers that backward
  // computes again). The parameters that the first step does not mark are unused. In the first step finish() starts the
  // buckets.
  static_graph,
};

// Gradients are sent in buckets. The buckets are filled from the last parameter to the first, because backward reaches
// the last layers first.
struct BucketOptions {
  // A bucket is closed once it holds at least so many bytes. The first one is small so that communication starts early.
  std::size_t first_bytes = std::size_t{1} << 20;
  std::size_t bytes = std::size_t{25} << 20;

  // If true, the buckets are refilled once, after the first synchronised step, in the order in which rank 0's gradients
  // became ready. This never happens with UnusedParameters::find. The gradients keep their addresses.
  bool rebuild = true;
};

// GradientExchange selects how the gradients of a bucket become their mean over all ranks. The next three types and
// hooks are its alternatives.

// Uses one all-reduce per bucket.
struct AllReduce {};

// Sends gradients, after the first step, in pieces of about so many bytes. Gradients that the next forward pass needs
// first are sent first: those that backward completes last overtake those not yet sent. It suits loops that continue as
// gradients arrive: wait(), Optimizer::step(index). On a GPU, the first synchronised finish() blocks until the GPU has
// done the step, because the order depends on its times. It does not work with UnusedParameters::find.
struct PriorityChunks {
  std::size_t bytes = std::size_t{4} << 20;
};

// Implements ZeRO stage 1: an optimizer keeps state for this rank's share of the elements only. finish() gives each
// rank the mean of its own share by a reduce-scatter. The other elements of a gradient keep this rank's own values.
// Optimizer::step() ends with all ranks receiving all parameters. Buckets are not rebuilt.
struct ShardOptimizer {};

// A hook may send less than the gradients (compression_hooks.h). A null hook means AllReduce.
using GradientExchange = std::variant<AllReduce, PriorityChunks, ShardOptimizer, std::shared_ptr<CommunicationHook>>;

// All ranks must use the same options.
struct DataParallelOptions {
  BucketOptions buckets = {};
  UnusedParameters unused = UnusedParameters::refuse;
  GradientExchange exchange = {};

  // Holds the gradients of all parameters, one after the other in the parameters' order and without gaps. The program
  // owns this memory, which must outlive the last handle; gradients are reduced in place. It is meant for programs with
  // one flat array of gradients. The constructor leaves the gradients unchanged. All parameters must then have one
  // type. By default the gradients are in memory that the ranks of a node share (ProcessGroup::allocate), which is
  // reduced faster.
  Buffer gradients = {};

  // For parameters in GPU memory (nccl), this is the stream on which the program computes. The default is CUDA's
  // default stream. A gradient that is marked ready is complete when the work then on the stream is done. finish() and
  // all other functions put their waits on the stream, and do not block unless their comments say so.
  Stream stream = {};

  // Lists tensors that are not trained but belong to the model, such as running means. The constructor and
  // broadcast_buffers() give all ranks the same values. Any type is allowed.
  std::vector<Tensor> model_buffers = {};

  // Lists parameters that are not trained (frozen). The constructor compares them and gives all ranks the same values.
  // verify_parameters() compares them too. Any type is allowed.
  std::vector<Tensor> frozen = {};
};

// The parameters are either all in host memory or all in the memory of this rank's GPU (nccl). The gradients are in the
// same memory.
//
// Owns the gradients, unless the program does (DataParallelOptions::gradients). `gradient(i)` is a view into a bucket,
// so that nothing is copied before the reduction.
//
// A DistributedDataParallel is a handle, as ProcessGroup is. Copies refer to the same parameters, gradients and steps,
// including those that an Optimizer, a Join and so on keep. The state ends with the last handle, which waits for the
// running reductions. While an exception unwinds the stack, it cancels them instead. The parameters' memory must
// outlive the last handle. Any thread may copy a handle, and any thread may call mark_ready(). The other functions must
// be called from one thread, through whichever handle.
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
  // This is a collective call. It checks that all ranks registered the same names, types and shapes in the same order.
  // Then it gives every rank the values of rank 0. Throws mismatch, naming the ranks and the first difference, on every
  // rank. Parameters must be of a floating-point type. On a GPU, it blocks until they are there. Throws unavailable for
  // ShardOptimizer if the parameters are in GPU memory and the GPU's driver cannot load the library's kernels.
  DistributedDataParallel(const ProcessGroup& group, std::vector<Tensor> parameters, DataParallelOptions options = {},
                          CallSite site = CallSite::current());
  ~DistributedDataParallel();
  // A move is a copy, so that every handle refers to an object.
  DistributedDataParallel(const DistributedDataParallel&) = default;
  DistributedDataParallel& operator=(const DistributedDataParallel&) = default;

  const ProcessGroup& group() const;
  std::span<const Tensor> parameters() const;

  // Returns the parameter of this name or number. Throws invalid_argument if there is none.
  //
  //   const ddp::Parameter weight = data_parallel.parameter("weight");
  //   backward(batch, weight.gradient<float>());
  //   weight.mark_ready();
  Parameter parameter(std::string_view name) const;
  Parameter parameter(std::size_t index) const;

  // Returns the gradient of parameter `index`, which has the same count and type. Its address never changes. Throws
  // invalid_argument if there is no such parameter, or if T is not its type.
  Buffer gradient(std::size_t index) const;
  template <typename T>
  std::span<T> gradient(std::size_t index) const {
    return gradient(index).as<T>();
  }

  // Sets every gradient to 0. Call it before backward adds to them. Throws invalid_argument in the middle of a step,
  // which finish() or abandon_step() must end first.
  void zero_gradients() const;

  // Marks the gradient of parameter `index` as complete on this rank for this step. A bucket's all-reduce starts when
  // all its gradients are complete and all earlier buckets have started. Throws invalid_argument if the parameter was
  // already ready in this step.
  void mark_ready(std::size_t index, CallSite site = CallSite::current()) const;

  // Waits until the gradient of parameter `index` is averaged. Other gradients may still be in transit, so the next
  // forward pass can begin early. All parameters must have been marked ready. finish() must follow before the next
  // step's gradients. Throws invalid_argument if the gradient was not marked, or the step is not synchronised. It also
  // throws as finish() does.
  //
  //   backward, with mark_ready(i) for all;
  //   for (i = 0; i < n; ++i) { optimizer.step(i); forward(layer i) }     // step(i) waits for gradient i
  //   data_parallel.finish();
  void wait(std::size_t index) const;

  // Waits until all buckets are averaged, and begins the next step. Each rank's gradients are divided by the number of
  // ranks and then summed, as in PyTorch. Throws invalid_argument, naming the parameters, if some were never marked;
  // otherwise the error of the reductions, which mark_ready() then throws too.
  void finish(CallSite site = CallSite::current()) const;

  // Abandons a step in the middle, for example after an exception in backward. It waits for running reductions. The
  // step does not count, and the gradients are undefined until the program zeroes them. The call is collective if the
  // step is synchronised: all ranks must abandon it. If other ranks end the step as usual, or have started more
  // reductions, they and this rank throw mismatch, or time out between nodes. Outside a step it does nothing.
  void abandon_step(CallSite site = CallSite::current()) const;

  // Steps are not synchronised while the result lives, and their gradients add up on this rank. Call it before the
  // step's first mark_ready(). The gradients are divided by the number of ranks only. If they shall be the mean over
  // several steps too, use accumulate().
  //
  //   { auto local = data_parallel.no_sync(); backward(first_half); data_parallel.finish(); }
  //   backward(second_half); data_parallel.finish();
  NoSync no_sync() const;

  // Returns whether the next finish() synchronises. It does not within no_sync() or before the end of an accumulation
  // window.
  bool synchronizes() const;

  // Starts accumulation windows of `micro_steps` steps, of which only the last is synchronised. See Accumulation.
  // Throws invalid_argument while another Accumulation lives.
  Accumulation accumulate(std::int64_t micro_steps) const;

  // Throws invalid_argument, with `what` as its subject, unless the gradients are the mean over all ranks. They are
  // from a finish() without no_sync() until the next zero_gradients() or mark_ready(). An optimizer that calls it never
  // steps on one rank's own gradients.
  void require_synchronized(std::string_view what) const;

  // Scales all gradients by max_norm / (norm + 1e-6) if that is less than 1, and returns the norm. The norm is the
  // square root of the sum of the squares of all gradients, as in torch.nn.utils.clip_grad_norm_. The norm is the same
  // on all ranks, except with LocalSgd, where each rank has its own. The call is collective with ShardOptimizer. If the
  // norm is not finite, it is returned and nothing is scaled. On a GPU, the call blocks until the norm is known. Throws
  // as require_synchronized(), or invalid_argument if max_norm is not positive, or unavailable if the GPU's driver
  // cannot load the library's kernels.
  double clip_gradients(double max_norm, CallSite site = CallSite::current()) const;

  // Multiplies all gradients, on a GPU in the order of the stream. Throws unavailable as clip_gradients().
  void scale_gradients(double factor) const;

  // Returns whether no gradient is infinite or NaN on any rank. The result is the same on all ranks. The call is
  // collective with ShardOptimizer and LocalSgd. On a GPU, it blocks until the result is known. Throws as
  // require_synchronized(), or unavailable as clip_gradients().
  bool gradients_are_finite(CallSite site = CallSite::current()) const;

  // This is a collective call. It gives all ranks the model buffers of rank `root` (DataParallelOptions). Call it
  // before a forward pass that reads them.
  void broadcast_buffers(int root = 0, CallSite site = CallSite::current()) const;

  // With UnusedParameters::find or static_graph, returns the parameters that no rank has used up to the last finish(),
  // in ascending order. An optimizer should leave them unchanged.
  std::span<const std::size_t> unused_parameters() const;

  // Returns the pieces that this rank's optimizer must update: all parameters, or this rank's shares of them
  // (ShardOptimizer).
  std::vector<ParameterPiece> owned() const;

  // With ShardOptimizer this call is collective: it gives every rank the pieces that the other ranks own. An optimizer
  // must end its step with it. Without ShardOptimizer it does nothing. On a GPU, it works in the order of the stream.
  void share_parameters(CallSite site = CallSite::current()) const;

  std::size_t bucket_count() const;
  // Returns the parameters in each bucket. The buckets are in the order in which they are reduced.
  std::vector<std::vector<std::size_t>> buckets() const;

  // Returns statistics of the synchronised steps so far, or since reset_statistics().
  const StepStatistics& statistics() const;
  void reset_statistics() const;

  // This is a collective call. Returns the hash of this rank's parameter bytes, including frozen parameters. Throws
  // mismatch, naming the ranks, unless all ranks have the same hash.
  std::uint64_t verify_parameters(CallSite site = CallSite::current()) const;

  // Returns the internal object that the library's other parts use.
  internal::DataParallelEngine& engine() const { return *engine_; }

 private:
  std::shared_ptr<internal::DataParallelEngine> engine_;
};

// Refers to a parameter of a DistributedDataParallel, of which it keeps a handle. This is a value type. The thread
// rules are those of the functions of the same names there.
class DDP_EXPORT Parameter {
 public:
  Parameter(const DistributedDataParallel& data_parallel, std::size_t index)
      : data_parallel_(data_parallel), index_(index) {}

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
  DistributedDataParallel data_parallel_;
  std::size_t index_;
};

}  // namespace ddp
