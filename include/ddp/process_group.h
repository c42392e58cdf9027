// A ProcessGroup is a set of ranks that work together, with their collectives.
#pragma once

#include <ddp/buffer.h>
#include <ddp/call_site.h>
#include <ddp/export.h>
#include <ddp/memory.h>
#include <ddp/reduce_op.h>
#include <ddp/stream.h>
#include <ddp/work.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddp {

namespace internal {
class GroupCore;
}  // namespace internal

// Holds the options of a single call. All of them may be omitted.
struct CallOptions {
  std::optional<std::chrono::milliseconds> timeout = {};  // the group's by default
  std::string name = {};  // shown in messages; the same on all ranks: "bucket 3: layer4.conv2.weight"

  // With nccl the operation begins when the work then on the stream is done. Work::wait() makes the stream, not the
  // host, wait for the operation.
  Stream stream = {};
};

// Collectives that are called while it lives begin together when it ends. The program must not wait for them before.
// ProcessGroup::batch() makes it. If batches are nested, the outermost counts.
class [[nodiscard]] DDP_EXPORT CollectiveBatch {
 public:
  explicit CollectiveBatch(std::shared_ptr<internal::GroupCore> core);
  CollectiveBatch(CollectiveBatch&&) noexcept = default;
  ~CollectiveBatch();

 private:
  std::shared_ptr<internal::GroupCore> core_;
};

// All ranks must call the same collectives in the same order, with the same counts and types. Ranks of one node always
// compare their calls. A difference throws `mismatch`, naming both ranks, both calls and both places in the program.
// Ranks of different nodes compare them with DDP_DEBUG=detail; without it a difference ends in the time-out.
//
// A collective returns at once, and `Work::wait` waits for its end. The group runs its collectives one after the other,
// in the order of the calls. send and recv do not wait for collectives, and collectives do not wait for them. Those
// from one rank to another keep their order.
//
// It is thread-safe: calls from several threads are put into one order. The program must ensure that this order is the
// same on all ranks. Either only one thread calls, or each thread has a group of its own (new_group).
//
// After a failed collective (a rank is gone, or did not call it within the time-out) the group is broken. Its pending
// and later operations fail with `aborted`. Failures of operations are OperationError. Wrong arguments throw an Error
// from the call itself and do not break the group.
//
// In the descriptions below, n is `size()`, and r is this rank. Output buffers on ranks that receive nothing are
// ignored, as are input buffers on ranks that give nothing. Inputs and outputs must not overlap, except where the
// description allows it.
//
// Every backend works on host memory; nccl also works on GPU memory. Data in GPU memory must be complete before the
// call, unless CallOptions::stream names the stream that produces them.
//
// A ProcessGroup is a handle. Copies refer to the same group, including those that a DistributedDataParallel, a
// CheckpointFile and so on keep. A handle without a group, for example one that was moved from, throws
// invalid_argument. When the last handle is destroyed, it waits for the running collective. Collectives that have not
// begun fail with `aborted`. While an exception unwinds the stack, it waits at most one second. The exception is then
// reported even if other ranks wait for this one.
//
//   ddp::ProcessGroup world = ddp::init();
//   std::vector<float> sums(1024, 1.0f);
//   world.all_reduce(sums).wait();            // every element is now world.size()
class DDP_EXPORT ProcessGroup {
 public:
  // Makes a handle without a group. init(), new_group() and split() return one with a group.
  ProcessGroup() = default;
  explicit ProcessGroup(std::shared_ptr<internal::GroupCore> core) : core_(std::move(core)) {}

  int rank() const;
  int size() const;
  // Return rank and size among those ranks of this group that are on this rank's node.
  int local_rank() const;
  int local_size() const;
  // Returns the device of this rank's collectives: its GPU (nccl), otherwise host memory.
  Device device() const;
  // Returns the name: "world", or the name that new_group() or split() gave to the group.
  const std::string& name() const;
  // Return "cpu", "gloo", "nccl" or "mpi", and the sentence that says why this backend was chosen.
  const std::string& backend() const;
  const std::string& backend_reason() const;

  // Works in place: afterwards `buffer` holds the reduction over all ranks.
  Work all_reduce(Buffer buffer, ReduceOp op = ReduceOp::sum, const CallOptions& options = {},
                  CallSite site = CallSite::current()) const;

  // Works in place on `root`. The other ranks' buffers do not change.
  Work reduce(Buffer buffer, int root, ReduceOp op = ReduceOp::sum, const CallOptions& options = {},
              CallSite site = CallSite::current()) const;

  // Copies `buffer` of `root` to all other ranks.
  Work broadcast(Buffer buffer, int root, const CallOptions& options = {}, CallSite site = CallSite::current()) const;

  // Afterwards `output` (n * input.count) holds the inputs of rank 0, 1, …; `input` may be its r-th part. With one
  // buffer per rank the counts may differ between ranks: outputs[i].count is rank i's input.count, on every rank.
  Work all_gather(Buffer output, ConstBuffer input, const CallOptions& options = {},
                  CallSite site = CallSite::current()) const;
  Work all_gather(std::span<const Buffer> outputs, ConstBuffer input, const CallOptions& options = {},
                  CallSite site = CallSite::current()) const;

  // Work like all_gather, but only `root` receives the inputs.
  Work gather(Buffer output, ConstBuffer input, int root, const CallOptions& options = {},
              CallSite site = CallSite::current()) const;
  Work gather(std::span<const Buffer> outputs, ConstBuffer input, int root, const CallOptions& options = {},
              CallSite site = CallSite::current()) const;

  // `output` receives the r-th part of `root`'s input (n * output.count), or root's inputs[r].
  Work scatter(Buffer output, ConstBuffer input, int root, const CallOptions& options = {},
               CallSite site = CallSite::current()) const;
  Work scatter(Buffer output, std::span<const ConstBuffer> inputs, int root, const CallOptions& options = {},
               CallSite site = CallSite::current()) const;

  // `output` receives the r-th part of the reduction of all inputs (n * output.count), or the reduction of all ranks'
  // inputs[r]. inputs[i].count is the same on every rank. `output` may be the r-th part of `input`.
  Work reduce_scatter(Buffer output, ConstBuffer input, ReduceOp op = ReduceOp::sum, const CallOptions& options = {},
                      CallSite site = CallSite::current()) const;
  Work reduce_scatter(Buffer output, std::span<const ConstBuffer> inputs, ReduceOp op = ReduceOp::sum,
                      const CallOptions& options = {}, CallSite site = CallSite::current()) const;

  // The i-th part of `output` receives the r-th part of rank i's input. With one buffer per rank, outputs[i] receives
  // rank i's inputs[r], and the counts may differ.
  Work all_to_all(Buffer output, ConstBuffer input, const CallOptions& options = {},
                  CallSite site = CallSite::current()) const;
  Work all_to_all(std::span<const Buffer> outputs, std::span<const ConstBuffer> inputs, const CallOptions& options = {},
                  CallSite site = CallSite::current()) const;

  // Rank `to` must call recv with the same count and type. The operation is done when `input` may be reused. A rank
  // cannot send to itself.
  Work send(ConstBuffer input, int to, const CallOptions& options = {}, CallSite site = CallSite::current()) const;
  Work recv(Buffer output, int from, const CallOptions& options = {}, CallSite site = CallSite::current()) const;

  // The operation is done when every rank has called it.
  Work barrier(const CallOptions& options = {}, CallSite site = CallSite::current()) const;

  // Blocks until every rank has called it. On failure each rank that called it throws `timeout` and names the ranks
  // that did not. It uses the store, not the backend, so it works while a collective hangs and does not break the
  // group.
  void monitored_barrier(std::optional<std::chrono::milliseconds> timeout = {},
                         CallSite site = CallSite::current()) const;

  // Takes any bytes, of any length on each rank. Returns those of all ranks in rank order, the same on every rank. It
  // blocks.
  std::vector<std::string> all_gather_bytes(std::string_view bytes, CallSite site = CallSite::current()) const;

  // Returns the bytes of `root`, on every rank. It blocks.
  std::string broadcast_bytes(std::string_view bytes, int root, CallSite site = CallSite::current()) const;

  // Makes a group of some ranks of this group. Rank i of it is ranks[i]. Only these ranks call it, each with the same
  // list. It blocks until all of them have called it. Messages show `name`, which defaults to the list of ranks.
  ProcessGroup new_group(std::span<const int> ranks, std::string name = "") const;

  // Makes one group per color, with its ranks in the order of (key, rank). A rank with a negative color gets
  // std::nullopt. Every rank of this group must call it, and it blocks.
  std::optional<ProcessGroup> split(int color, int key = 0, CallSite site = CallSite::current()) const;

  // Allocates memory for data on which this group's collectives often work, such as gradients. With the cpu backend the
  // ranks of a node share it. A reduction then works in place, several times faster than with other memory. The memory
  // is zeroed and aligned to 64 bytes. The call is local: ranks need not allocate alike. The memory may outlive the
  // group. On a GPU (nccl) NCCL allocates the memory, which is registered with the group.
  Memory allocate(std::size_t count, DataType type, DeviceType device = DeviceType::cpu) const;

  // Allocates zeroed host memory, which is page-locked with nccl. Copies between it and the GPU then run at full speed,
  // and on a stream they do not block the host. The allocation is slow (milliseconds), so see MemoryPool. The memory
  // may outlive the group.
  Memory allocate_pinned(std::size_t count, DataType type) const;

  // Copies as many bytes as `from` has, between host and GPU memory of this rank. It blocks. Work already on `stream`
  // is done before. No other rank takes part.
  void copy(Buffer to, ConstBuffer from, Stream stream = {}) const;

  // Sets a buffer of this rank to 0. In GPU memory it runs in the order of `stream` without waiting; without a stream
  // it blocks.
  void zero(Buffer buffer, Stream stream = {}) const;

  // Ends the group's use of a stream. A program calls it before it destroys a stream that it has given to the group
  // (CallOptions::stream, DataParallelOptions::stream, copy(), zero(), CheckpointFile), once for each such group:
  //
  //   world.forget(stream);
  //   cudaStreamDestroy(stream);
  //
  // Operations on the stream must have been waited for (Work::wait). Objects that use it, such as a
  // DistributedDataParallel, must have been destroyed. The call does not block, and the stream may still hold work:
  // memory of the group that is given back later is freed when this work is done. The stream may be given to the group
  // again. Any thread may call it, also after finalize() or abort(). For an unknown stream, and without a GPU, it does
  // nothing. Throws invalid_argument if the stream captures a CUDA graph; no other error.
  void forget(Stream stream) const;

  // With nccl and DDP_GPU_REGISTER=1, registers GPU memory that collectives will use repeatedly, so that NCCL avoids
  // its own copies where it can. Every rank must call it, with the same offsets and sizes. Otherwise it does nothing.
  Registration register_buffer(Buffer buffer) const;

  // Starts a batch, for many small collectives, and for collectives of several groups that would otherwise wait for
  // each other:
  //
  //   {
  //     const ddp::CollectiveBatch batch = world.batch();
  //     for (ddp::Buffer buffer : buffers) works.push_back(world.all_reduce(buffer));
  //   }
  //   for (ddp::Work& work : works) work.wait();
  CollectiveBatch batch() const;

  // Makes the running collective and all pending and later ones fail with `aborted`. Any thread may call it. Other
  // ranks see this rank as lost.
  void abort() const;

  // Waits until all operations are done, then until all ranks have called it (a barrier), then leaves the group. Later
  // calls fail with `aborted`. Throws the errors of operations that failed.
  void finalize(CallSite site = CallSite::current()) const;

  // Returns the library's internal object for the group. Throws invalid_argument if the handle has no group.
  internal::GroupCore& core() const;

 private:
  std::shared_ptr<internal::GroupCore> core_;
};

}  // namespace ddp
