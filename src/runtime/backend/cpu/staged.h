// Staged runs collectives piece by piece through the staging buffers. This path always works.
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

  // Publishes before the first round how many bytes this rank gives to each other rank.
  void show_sizes(const TransferPlan& own);

  // Checks the sizes after the first round. Throws `mismatch` if a rank gives another number of bytes than this rank
  // takes.
  void require_size(const TransferPlan& own, std::size_t index) const;

  // Runs the rest of a transfer after its first round.
  void move(const TransferPlan& own);
  // Runs the rest of a reduction after its first round.
  void reduce(const Call& call);

 private:
  struct Piece {
    std::size_t first = 0;  // offset in bytes
    std::size_t bytes = 0;
  };
  // Returns the piece of `bytes` that this round moves, if each round moves `step` bytes.
  static Piece piece_of(std::size_t bytes, std::size_t step, std::size_t round);

  void fill(const TransferPlan& own, std::size_t step, std::size_t round);
  void drain(const TransferPlan& own, std::size_t step, std::size_t round);
  void drain_reduced(const TransferPlan& own, std::size_t step, std::size_t round);

  const std::shared_ptr<NodeGroup> node_;
  Rounds& rounds_;
  std::vector<ReductionSource> sources_;
};

}  // namespace ddp::internal
