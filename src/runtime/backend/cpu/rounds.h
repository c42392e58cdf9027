// Rounds: how the ranks of one node keep in step. In each round every rank writes into memory of its own, arrives,
// waits until all have arrived, and reads what the others wrote.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>

#include "runtime/call/call.h"
#include "runtime/peers/node_group.h"

namespace ddp::internal {

// How to wait for another rank: spinning at first if each rank has a processor of its own, then giving the processor
// away, then asleep, looking now and then whether what is waited for can still come.
class NodeWait {
 public:
  NodeWait(std::shared_ptr<const NodeGroup> node, const std::atomic<bool>& aborted);

  // Until `counter`, a peer's, has been raised to `target`. Throws `timeout`, `peer_lost`, `aborted`, `mismatch`.
  void until(SharedCounter& counter, std::uint32_t target, std::size_t peer, const Call& call,
             std::chrono::steady_clock::time_point deadline) const;

 private:
  void look(const SharedCounter& counter, std::uint32_t target, std::size_t peer, const Call& call,
            std::chrono::steady_clock::time_point deadline) const;

  const std::shared_ptr<const NodeGroup> node_;
  const std::atomic<bool>& aborted_;
  const int spins_;
};

// Whether a counter that wraps around has reached `target`.
constexpr bool has_reached(std::uint32_t value, std::uint32_t target) {
  return static_cast<std::int32_t>(value - target) >= 0;
}

// Of one rank, for one collective at a time.
//
// Two staging buffers of each rank are used in even rounds and two in odd ones: what was read in round k may be
// overwritten before arriving in round k + 2, because whoever arrived in round k + 1 was done with round k.
class Rounds {
 public:
  Rounds(std::shared_ptr<NodeGroup> node, const std::atomic<bool>& aborted);

  void begin(const Call& call) { deadline_ = std::chrono::steady_clock::now() + call.timeout; }
  void arrive() { node_->raise(node_->own_area().arrived, ++round_); }
  // Until all have arrived as often as this rank.
  void await(const Call& call) const;
  void meet(const Call& call) {
    arrive();
    await(call);
  }

  // The staging buffers of the round that the next arrive() ends; 0 for inputs, 1 for results.
  std::byte* filling(std::size_t which) const { return node_->stage(node_->own(), stage_of(round_ + 1, which)); }
  // Those of the round that the last arrive() ended.
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
