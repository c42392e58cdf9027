// A backend moves the data of collectives. One object serves one process group on one rank.
#pragma once

#include <ddp/memory.h>
#include <ddp/store.h>
#include <ddp/stream.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/call/call.h"

namespace ddp::wire {
struct PageGroup;
struct StatusPageLayout;
}  // namespace ddp::wire

namespace ddp::internal {

class GpuMath;
class LostRank;
class NodeGroup;

struct BackendOptions {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  std::chrono::milliseconds timeout{0};          // limit for all ranks to find each other
  std::string node_name;                         // ranks with equal names are on one node; detected if empty
  std::shared_ptr<NodeGroup> node_group;         // the ranks of this node, set once they have met
  std::chrono::milliseconds connect_timeout{0};  // limit for connecting, if the backend has one; 0 means timeout
  std::string store_host;                        // address where the ranks' store is served, empty if unknown
  std::vector<int> world_ranks;                  // world rank of each rank of a sub-group, empty for the world itself
  std::shared_ptr<Store> world_store;            // store of the world, set for a sub-group
  std::function<void()> check_members;  // for a sub-group: throws if a member is known to be lost; may be empty
  std::shared_ptr<LostRank> lost_rank;  // set for a group on several nodes, once its ranks have met
  // If each rank of this backend represents its whole node, this lists, per rank, the represented ranks of the group.
  // Messages name the first one. The list is empty if the backend has the ranks of the group itself.
  std::vector<std::vector<int>> stands_for;
};

// Returns the world rank of a rank of the group that has these BackendOptions::world_ranks. Returns `rank` itself if
// `world_ranks` does not hold it.
inline int world_rank_of(int rank, const std::vector<int>& world_ranks) {
  const auto index = static_cast<std::size_t>(rank);
  return index < world_ranks.size() ? world_ranks[index] : rank;
}

// Represents a stream of this rank's GPU besides the program's own streams, and measures times on any stream. Any
// thread may call any function.
class SideStream {
 public:
  using Mark = std::shared_ptr<void>;

  virtual ~SideStream() = default;

  virtual void* handle() const = 0;
  // Makes work that is put on `later` from now on wait for the work that is on `earlier` now.
  virtual void order(void* earlier, void* later) = 0;
  // Returns a mark for the moment when the work that is on the stream now is done.
  virtual Mark mark(void* stream) = 0;
  virtual bool is_reached(const Mark& mark) = 0;
  // Returns the time between two marks, or std::nullopt if one of them has not been reached.
  virtual std::optional<double> seconds(const Mark& earlier, const Mark& later) = 0;
  // Blocks until the work that is on the stream now is done. Throws `timeout`.
  virtual void finish(void* stream, std::chrono::nanoseconds limit) = 0;
  // Copies from GPU memory to memory of Backend::allocate_pinned(), in the order of this stream. Does not block.
  virtual void copy_to_pinned(void* to, const void* from, std::size_t bytes) = 0;
};

// Says when the host saw the GPU begin and end an operation. Both moments are later than on the GPU.
struct GpuSpan {
  std::chrono::steady_clock::time_point begin;
  std::chrono::steady_clock::time_point end;
};

// The caller has checked the arguments: counts fit, types suit the operation, and nothing is empty except where ranks
// may give different counts. The caller runs collectives one at a time, in the group's order, from any thread. Other
// threads run sends and receives at the same time, one at a time per peer and direction. A failure is an Error of kind
// `peer_lost`, `timeout`, `mismatch`, `unavailable` (the backend cannot do this at all) or `internal`. It names the
// peer if possible. No collective follows after a failure.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;

  // Returns the GPU whose memory the backend works on, as CUDA numbers it in this process. Returns std::nullopt if the
  // backend works on host memory only.
  virtual std::optional<int> gpu() const { return std::nullopt; }

  // Returns how many operations may have begun and be unfinished when another one begins.
  virtual BeginsAhead begins_ahead() const { return {}; }

  // Throws invalid_argument if the backend can never carry out the call, such as with memory of another GPU. The caller
  // calls it before it queues the operation. Any thread may call it.
  virtual void check(const Call& /*call*/) const {}

  // Begins an operation on the caller's thread, as far as that needs no waiting for other ranks. Returns true if the
  // other ranks can complete the operation without this rank's run(). Then run() is not urgent, but the caller calls it
  // in any case. If there are several operations, they are a whole batch: all of them begin, or none. With
  // begins_ahead(), run() of an earlier operation may be under way on another thread.
  virtual bool begin(std::span<const Call* const> /*calls*/) { return false; }

  // Begins a batch that begin() has refused, all operations or none, if it only had to wait for other ranks. This
  // function waits for them, up to the first call's timeout. Every rank gets the same answer. The caller calls it
  // instead of run(), when all earlier operations are complete.
  virtual bool begin_batch(std::span<const Call* const> /*calls*/) { return false; }

  // A thread calls it when it begins to wait on the host for the end of the call, and when it stops waiting. The
  // operations before the call are then urgent, too.
  virtual void host_waits(const Call& /*call*/, bool /*begins*/) {}

  // Blocks until the operation is complete on this rank.
  virtual void run(const Call& call) = 0;

  // Makes the GPU itself write how far the group's collectives are, into the group's place on this process's status
  // page. Also writes which GPU this rank uses. The caller calls it before the first collective. A backend that cannot
  // do this writes nothing.
  virtual void mark_on(wire::StatusPageLayout& /*page*/, wire::PageGroup& /*place*/) {}

  // Returns when the host saw the GPU begin and end the collective for which run() returned last on this thread.
  // Returns std::nullopt if the host has not seen both.
  virtual std::optional<GpuSpan> gpu_span(const Call& /*call*/) const { return std::nullopt; }

  // Makes work that is put on the call's stream from now on wait for the operation, which has begun. Does not block.
  virtual void join_stream(const Call& /*call*/) {}

  // Runs a first operation of all ranks. Backends need it if a connection alone does not prove that operations work.
  // Throws the error that it finds.
  virtual void try_out(std::chrono::milliseconds /*timeout*/) {}

  // Makes the running operation end soon, with `aborted` or another failure. Any thread may call it at any time.
  virtual void abort() {}

  // Returns zeroed memory on which the backend works best. Any thread may call it.
  virtual std::shared_ptr<void> allocate(std::size_t bytes);
  // Returns zeroed memory on this rank's GPU. Throws `unavailable` if the backend has none.
  virtual std::shared_ptr<void> allocate_on_gpu(std::size_t bytes);

  // Returns zeroed host memory that a GPU copies without the host's help. Without a GPU, it is ordinary memory. Any
  // thread may call it.
  virtual std::shared_ptr<void> allocate_pinned(std::size_t bytes) { return Backend::allocate(bytes); }

  // Copies between buffers of equal size in any memory that the backend knows. The copy follows the work that is on the
  // stream, and the call blocks until it is done. Any thread may call it.
  virtual void copy(const Buffer& to, const ConstBuffer& from, Stream stream);
  // Sets the buffer to 0, in the order of the stream; blocks if there is no stream. Any thread may call it.
  virtual void zero(const Buffer& buffer, Stream stream);
  // The caller will destroy the stream, so the backend does not use its handle any more. Does not block. Throws
  // invalid_argument if the stream captures a graph. Any thread may call it.
  virtual void forget(Stream /*stream*/) {}
  // Creates a side stream. Throws `unavailable` if the backend has no GPU.
  virtual std::unique_ptr<SideStream> side_stream();

  // Returns the functions that compute in GPU memory. The backend owns them. Returns null if the backend has no GPU, or
  // if the driver cannot load the kernels. Any thread may call it.
  virtual GpuMath* gpu_math() { return nullptr; }

  // Lets the backend prepare the memory for its use, until the result is destroyed. Returns null if there is nothing to
  // prepare.
  virtual std::shared_ptr<void> register_buffer(const Buffer& /*buffer*/) { return nullptr; }

  // Returns whether split() can be used, so that the ranks need not meet again.
  virtual bool can_split() const { return false; }
  // Creates a backend for the ranks with the same color. Returns null if the color is negative. All ranks call it,
  // while no operation is running.
  virtual std::unique_ptr<Backend> split(const BackendOptions& options, std::shared_ptr<Store> store, int color);
};

}  // namespace ddp::internal
