// Backend: what carries the bytes of collectives. One object serves one process group on one rank.
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

class NodeGroup;
class LostRank;

struct BackendOptions {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  std::chrono::milliseconds timeout{0};          // of the meeting of all ranks
  std::string node_name;                         // ranks with the same one are on one node; empty: found out
  std::shared_ptr<NodeGroup> node_group;         // the ranks of this node, when they have met
  std::chrono::milliseconds connect_timeout{0};  // of the connecting, where a backend can end it; 0: timeout
  std::string store_host;                        // where the ranks' store is served; empty: unknown
  std::vector<int> world_ranks;                  // of each rank of a sub-group; empty: of the world itself
  std::shared_ptr<Store> world_store;            // of a sub-group's world
  std::function<void()> look_around;             // of a sub-group: throws if a member is known to be gone; may be empty
  std::shared_ptr<LostRank> lost_rank;           // of a group on several nodes, when they have met
  // Where a rank meets others for all of its node: by that meeting's numbers, the rank of the group that is meant,
  // and those for which it stands. Empty: the ranks of the group.
  std::vector<std::vector<int>> stands_for;
};

// Returns the number in the job of a rank of the group that has these BackendOptions::world_ranks, or `rank` itself if
// they do not hold it.
inline int world_rank_of(int rank, const std::vector<int>& world_ranks) {
  const auto index = static_cast<std::size_t>(rank);
  return index < world_ranks.size() ? world_ranks[index] : rank;
}

// A stream of this rank's GPU beside the program's own, and times on any stream. Any thread, one at a time.
class SideStream {
 public:
  using Mark = std::shared_ptr<void>;

  virtual ~SideStream() = default;

  virtual void* handle() const = 0;
  // What is put on `later` from now on waits for what is on `earlier` now.
  virtual void order(void* earlier, void* later) = 0;
  // The moment at which what is on the stream now will be done.
  virtual Mark mark(void* stream) = 0;
  // Between two marks; nothing while one of them has not come.
  virtual std::optional<double> seconds(const Mark& earlier, const Mark& later) = 0;
};

// Arguments have been checked: counts fit, types suit the operation, nothing is empty but where ranks may give
// different counts. Collectives come one at a time, in the group's order, from any thread; sends and receives come from
// other threads at the same time, one at a time for each other rank and direction. A failure is an Error: `peer_lost`,
// `timeout`, `mismatch`, `unavailable` (the backend cannot do this at all), `internal`; it names the peer where it can.
// After it no collective follows.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;

  // The GPU on whose memory it works, as CUDA numbers them in this process; nothing: on host memory only.
  virtual std::optional<int> gpu() const { return std::nullopt; }

  // How many operations may have begun and be unfinished when another one begins.
  virtual std::size_t begins_ahead() const { return 0; }

  // Does of an operation what needs no waiting for other ranks, on the caller's thread, as soon as it is called. True:
  // the other ranks can complete it without this rank's run(), so nobody needs to hurry to call it; it follows in any
  // case. Several operations: all that were called within a batch; all of them begin, or none. With
  // begins_ahead(), run() of an earlier one may be under way on another thread.
  virtual bool begin(std::span<const Call* const> /*calls*/) { return false; }

  // Blocks until the operation is complete on this rank.
  virtual void run(const Call& call) = 0;

  // The GPU itself is to write into the group's place, on this process's page, how far its collectives are. Before the
  // first of them; where it cannot nothing is written.
  virtual void mark_on(wire::StatusPageLayout& /*page*/, wire::PageGroup& /*place*/) {}

  // What is put on the call's stream from now on waits for the operation, which has begun. Does not block.
  virtual void join_stream(const Call& /*call*/) {}

  // A first operation of all ranks, for backends that have connected is not to have worked. Throws what is wrong.
  virtual void try_out(std::chrono::milliseconds /*timeout*/) {}

  // From any thread, at any time: what runs ends soon, with `aborted` or another failure.
  virtual void abort() {}

  // Memory that the backend can work on best, of zeros. From any thread.
  virtual std::shared_ptr<void> allocate(std::size_t bytes);
  // The same on this rank's GPU. Throws `unavailable` if the backend has none.
  virtual std::shared_ptr<void> allocate_on_gpu(std::size_t bytes);

  // Host memory of zeros that a GPU copies without the host's help; without a GPU, ordinary memory. From any thread.
  virtual std::shared_ptr<void> allocate_pinned(std::size_t bytes) { return Backend::allocate(bytes); }

  // As many bytes, from any memory that the backend knows to any other; blocks. After what is on the stream. Any
  // thread.
  virtual void copy(const Buffer& to, const ConstBuffer& from, Stream stream);
  // Sets it to 0, in a stream's order; without one it blocks. Any thread.
  virtual void zero(const Buffer& buffer, Stream stream);
  // Throws `unavailable` if the backend has no GPU.
  virtual std::unique_ptr<SideStream> side_stream();

  // Lets the backend prepare the memory for its use, until the result is destroyed. Null: nothing to prepare.
  virtual std::shared_ptr<void> register_buffer(const Buffer& /*buffer*/) { return nullptr; }

  // Whether split() can be used instead of meeting anew.
  virtual bool can_split() const { return false; }
  // Collective over all ranks, with nothing under way: a backend for those with the same color. Null for a negative
  // one.
  virtual std::unique_ptr<Backend> split(const BackendOptions& options, std::shared_ptr<Store> store, int color);
};

}  // namespace ddp::internal
