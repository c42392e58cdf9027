// Rounds synchronize the ranks of one node. In each round, every rank writes into its own memory, arrives, waits until
// all have arrived, and reads the data of the others.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>

#include "runtime/call/call.h"
#include "runtime/peers/node_group.h"

namespace ddp::internal {

// Waits for another rank. It spins first if each rank has its own processor, then it yields the processor, and then it
// sleeps. While it sleeps, it checks now and then whether the awaited event can still happen.
class NodeWait {
 public:
  NodeWait(std::shared_ptr<const NodeGroup> node, const std::atomic<bool>& aborted);

  // Returns when a peer's `counter` has been raised to `target`. Throws `timeout`, `peer_lost`, `aborted` or
  // `mismatch`.
  void until(SharedCounter& counter, std::uint32_t target, std::size_t peer, const Call& call,
             std::chrono::steady_clock::time_point deadline) const;

 private:
  void check(const SharedCounter& counter, std::uint32_t target, std::size_t peer, const Call& call,
             std::chrono::steady_clock::time_point deadline) const;

  const std::shared_ptr<const NodeGroup> node_;
  const std::atomic<bool>& aborted_;
  const int spins_;
};

// Returns whether a counter that wraps around has reached `target`.
constexpr bool has_reached(std::uint32_t value, std::uint32_t target) {
  return static_cast<std::int32_t>(value - target) >= 0;
}

// Serves one rank, for one collective at a time.
//
// Each rank uses two staging buffers in even rounds and two in odd rounds. Before a rank arrives in round k + 2, it may
// overwrite the data of round k. All ranks have read them, because a rank that arrived in round k + 1 was done with
// round k.
class Rounds {
 public:
  Rounds(std::shared_ptr<NodeGroup> node, const std::atomic<bool>& aborted);

  void begin(const Call& call) { deadline_ = std::chrono::steady_clock::now() + call.timeout; }
  void arrive() { node_->raise(node_->own_area().arrived, ++round_); }
  // Returns when all ranks have arrived as often as this rank.
  void await(const Call& call) const;
  void meet(const Call& call) {
    arrive();
    await(call);
  }

  // Returns the staging buffer of the round that the next arrive() ends. `which` is 0 for inputs and 1 for results.
  std::byte* filling(std::size_t which) const { return node_->stage(node_->own(), stage_of(round_ + 1, which)); }
  // Returns the staging buffer of the round that the last arrive() ended.
  const std::byte* filled(std::size_t index, std::size_t which) const {
    return node_->stage(index, stage_of(round_, which));
  }

 private:
  static std::size_t stage_of(std::size_t round, std::size_t which) { return round % 2 * 2 + which; }

  const std::shared_ptr<NodeGroup> node_;
  const NodeWait wait_;
  std::uint32_t round_ = 0;
  std::chrono::steady_clock::time_point deadline_;
};

}  // namespace ddp::internal
