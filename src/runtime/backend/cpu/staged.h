// Staged: collectives through the staging buffers, piece by piece. The way that always works.
#pragma once

#include <memory>
#include <vector>

#include "runtime/backend/cpu/rounds.h"
#include "runtime/call/transfer_plan.h"
#include "runtime/peers/node_group.h"
#include "runtime/reduction/reduction.h"

namespace ddp::internal {

class Staged {
 public:
  Staged(std::shared_ptr<NodeGroup> node, Rounds& rounds) : node_(std::move(node)), rounds_(rounds) {}

  // Before the first round: how many bytes this rank gives to each other one.
  void show_sizes(const TransferPlan& own);

  // After it: throws `mismatch` if a rank gives another number of bytes than this one takes.
  void require_size(const TransferPlan& own, std::size_t index) const;

  // The rest of a collective after its first round.
  void move(const TransferPlan& own);
  void reduce(const Call& call);

 private:
  struct Piece {
    std::size_t first = 0;  // bytes
    std::size_t bytes = 0;
  };
  // The piece of this round of `bytes` that go by `step` bytes a round.
  static Piece piece_of(std::size_t bytes, std::size_t step, std::size_t round);

  void fill(const TransferPlan& own, std::size_t step, std::size_t round);
  void drain(const TransferPlan& own, std::size_t step, std::size_t round);
  void drain_reduced(const TransferPlan& own, std::size_t step, std::size_t round);

  const std::shared_ptr<NodeGroup> node_;
  Rounds& rounds_;
  std::vector<ReductionSource> sources_;
};

}  // namespace ddp::internal
