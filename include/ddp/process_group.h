// ProcessGroup: the ranks that work together, and their collectives.
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

// What may be said of a single call; all of it may be left out.
struct CallOptions {
  std::optional<std::chrono::milliseconds> timeout = {};  // default: the group's
  std::string name = {};  // for messages, the same on all ranks: "bucket 3: layer4.conv2.weight"

  // nccl: the operation begins when what is on the stream now is done, and Work::wait() makes the stream, not the host,
  // wait for it.
  Stream stream = {};
};

// Collectives that are called while it lives begin together when it ends. They must not be waited for before. Made by
// ProcessGroup::batch(); of nested ones the outermost counts.
class [[nodiscard]] DDP_EXPORT CollectiveBatch {
 public:
  explicit CollectiveBatch(std::shared_ptr<internal::GroupCore> core);
  CollectiveBatch(CollectiveBatch&&) noexcept = default;
  ~CollectiveBatch();

 private:
  std::shared_ptr<internal::GroupCore> core_;
};

// All ranks call the same collectives in the same order, with the same counts and types. Ranks of one node compare
// what they call, always; a difference throws `mismatch`, naming both ranks, both calls and both places
// in the program. (Between nodes: with DDP_DEBUG=detail. Without it a difference ends in the time-out.)
//
// A collective returns at once; `Work::wait` ends it. The group runs its collectives one after the other, in the order
// of the calls. send and recv do not wait for collectives, nor they for them; those from one rank to another keep their
// order.
//
// Thread-safe: calls from several threads get into one order. That order must be the same on all ranks, which is the
// program's duty: let one thread call, or give each thread a group of its own (new_group).
//
// After a failed collective (a rank is gone, or did not come within the time-out) the group is broken: what it was
// asked for before and after fails with `aborted`. Failures of operations are OperationError; wrong arguments are an
// Error of the call itself, and nothing is broken.
//
// Counts: `size()` is n, and this rank is r. Outputs of other ranks than those that get something are ignored, as are
// inputs of those that give nothing. Inputs and outputs must not overlap unless it is said that they may.
//
// Memory: host memory for every backend; GPU memory for nccl. There the data must be complete before the call, unless
// CallOptions::stream names the stream that makes them.
//
// A handle: copies are the same group, and so are those that a DistributedDataParallel, a CheckpointFile and so on
// keep. One that was moved from or that no group was given says so (invalid_argument). When the last handle is
// destroyed, the collective that runs is waited for; those that have not begun fail with `aborted`. While an exception
// unwinds the stack that takes a second at most, so that the exception is heard although other ranks wait for this one.
//
//   ddp::ProcessGroup world = ddp::init();
//   std::vector<float> sums(1024, 1.0f);
//   world.all_reduce(sums).wait();            // every element is now world.size()
class DDP_EXPORT ProcessGroup {
 public:
  // No group: init(), new_group() and split() give one.
  ProcessGroup() = default;
  explicit ProcessGroup(std::shared_ptr<internal::GroupCore> core) : core_(std::move(core)) {}

  int rank() const;
  int size() const;
  // The same among the ranks of this group that are on this rank's node.
  int local_rank() const;
  int local_size() const;
  // What this rank's collectives work on: its GPU (nccl), else host memory.
  Device device() const;
  // "world", or what new_group() and split() made of it.
  const std::string& name() const;
  // "cpu", "gloo", "nccl" or "mpi", and the sentence that says why that one.
  const std::string& backend() const;
  const std::string& backend_reason() const;

  // In place: afterwards `buffer` holds the reduction over all ranks.
  Work all_reduce(Buffer buffer, ReduceOp op = ReduceOp::sum, const CallOptions& options = {},
                  CallSite site = CallSite::current()) const;

  // In place on `root`; the other ranks' buffers stay as they are.
  Work reduce(Buffer buffer, int root, ReduceOp op = ReduceOp::sum, const CallOptions& options = {},
              CallSite site = CallSite::current()) const;

  // Afterwards `buffer` holds what it held on `root`.
  Work broadcast(Buffer buffer, int root, const CallOptions& options = {}, CallSite site = CallSite::current()) const;

  // Afterwards `output` (n * input.count) holds the inputs of rank 0, 1, …; `input` may be its r-th part. With one
  // buffer a rank the counts may differ between ranks: outputs[i].count is rank i's input.count, on every rank.
  Work all_gather(Buffer output, ConstBuffer input, const CallOptions& options = {},
                  CallSite site = CallSite::current()) const;
  Work all_gather(std::span<const Buffer> outputs, ConstBuffer input, const CallOptions& options = {},
                  CallSite site = CallSite::current()) const;

  // The same for `root` alone.
  Work gather(Buffer output, ConstBuffer input, int root, const CallOptions& options = {},
              CallSite site = CallSite::current()) const;
  Work gather(std::span<const Buffer> outputs, ConstBuffer input, int root, const CallOptions& options = {},
              CallSite site = CallSite::current()) const;

  // `output` gets the r-th part of `root`'s input (n * output.count), or root's inputs[r].
  Work scatter(Buffer output, ConstBuffer input, int root, const CallOptions& options = {},
               CallSite site = CallSite::current()) const;
  Work scatter(Buffer output, std::span<const ConstBuffer> inputs, int root, const CallOptions& options = {},
               CallSite site = CallSite::current()) const;

  // `output` gets the r-th part of the reduction of all inputs (n * output.count), or that of all ranks' inputs[r];
  // inputs[i].count is the same on every rank. `output` may be the r-th part of `input`.
  Work reduce_scatter(Buffer output, ConstBuffer input, ReduceOp op = ReduceOp::sum, const CallOptions& options = {},
                      CallSite site = CallSite::current()) const;
  Work reduce_scatter(Buffer output, std::span<const ConstBuffer> inputs, ReduceOp op = ReduceOp::sum,
                      const CallOptions& options = {}, CallSite site = CallSite::current()) const;

  // The i-th part of `output` gets the r-th part of rank i's input; or outputs[i] gets rank i's inputs[r], and the
  // counts may differ.
  Work all_to_all(Buffer output, ConstBuffer input, const CallOptions& options = {},
                  CallSite site = CallSite::current()) const;
  Work all_to_all(std::span<const Buffer> outputs, std::span<const ConstBuffer> inputs, const CallOptions& options = {},
                  CallSite site = CallSite::current()) const;

  // Rank `to` must call recv with the same count and type. Done when `input` may be used again. Not to itself.
  Work send(ConstBuffer input, int to, const CallOptions& options = {}, CallSite site = CallSite::current()) const;
  Work recv(Buffer output, int from, const CallOptions& options = {}, CallSite site = CallSite::current()) const;

  // Done when every rank has called it.
  Work barrier(const CallOptions& options = {}, CallSite site = CallSite::current()) const;

  // Blocks until every rank has called it; on failure each rank that came throws `timeout` with the ranks that did not.
  // It goes through the store, not through the backend: it works while a collective hangs, and breaks nothing.
  void monitored_barrier(std::optional<std::chrono::milliseconds> timeout = {},
                         CallSite site = CallSite::current()) const;

  // Any bytes, of any length on each rank; the result is the same on every rank, in rank order. Blocks.
  std::vector<std::string> all_gather_bytes(std::string_view bytes, CallSite site = CallSite::current()) const;

  // The bytes of `root`, on every rank. Blocks.
  std::string broadcast_bytes(std::string_view bytes, int root, CallSite site = CallSite::current()) const;

  // A group of some of this one's ranks: rank i of it is ranks[i]. Only they call it, each with the same list. Blocks
  // until all have. `name`: for messages; default: the ranks.
  ProcessGroup new_group(std::span<const int> ranks, std::string name = "") const;

  // One group for each color, its ranks in the order of (key, rank). A negative color: none. Every rank of this group
  // calls it; blocks.
  std::optional<ProcessGroup> split(int color, int key = 0, CallSite site = CallSite::current()) const;

  // Memory for what this group's collectives will often work on, as gradients. With the cpu backend the ranks of a
  // node share it: a reduction then reads and writes it where it lies, several times faster than other memory. 0 in
  // the beginning; begins at a multiple of 64 bytes. Local: ranks need not allocate alike. It may outlive the group.
  // On a GPU (nccl): memory of NCCL's own, registered with the group.
  Memory allocate(std::size_t count, DataType type, DeviceType device = DeviceType::cpu) const;

  // Host memory, page-locked with nccl: copies between it and the GPU go at full speed, and on a stream they do not
  // hold up the host. Making it is slow (milliseconds): see MemoryPool. 0 in the beginning. It may outlive the group.
  Memory allocate_pinned(std::size_t count, DataType type) const;

  // Copies as many bytes as `from` has, between host and GPU memory of this rank; blocks. What is on `stream` is done
  // before. No other rank takes part.
  void copy(Buffer to, ConstBuffer from, Stream stream = {}) const;

  // Sets a buffer of this rank to 0. GPU memory: in the order of `stream`, without waiting; without one it blocks.
  void zero(Buffer buffer, Stream stream = {}) const;

  // nccl: tells NCCL of GPU memory that collectives will use again and again, so that it moves the data without copies
  // of its own where it can. Every rank does it, with the same offsets and sizes. Other memory and backends: nothing.
  Registration register_buffer(Buffer buffer) const;

  // For many small collectives, and for those of several groups that would else wait for each other:
  //
  //   {
  //     const ddp::CollectiveBatch batch = world.batch();
  //     for (ddp::Buffer buffer : buffers) works.push_back(world.all_reduce(buffer));
  //   }
  //   for (ddp::Work& work : works) work.wait();
  CollectiveBatch batch() const;

  // From any thread: the collective that runs and all that wait fail with `aborted`; so do later ones. Other ranks see
  // this one as lost.
  void abort() const;

  // Waits until everything that was called is done, then for all ranks (a barrier), then leaves; later calls fail with
  // `aborted`. Throws what failed.
  void finalize(CallSite site = CallSite::current()) const;

  // The library's own view of the group. Throws invalid_argument if this is no group.
  internal::GroupCore& core() const;

 private:
  std::shared_ptr<internal::GroupCore> core_;
};

}  // namespace ddp
