// NcclConnections remembers which operations of a communicator need no new connections between the ranks.
#pragma once

#include <cstddef>
#include <set>
#include <span>
#include <tuple>
#include <vector>

#include "runtime/backend/nccl/nccl_steps.h"

namespace ddp::internal {

// NCCL connects the ranks at the first operation that needs it, and waits for all of them meanwhile. It does so per
// algorithm. It chooses the algorithm by the function, the type, the reduction and the size, and adds up the sizes of
// equal operations in a group. So collectives that are called together are known only together. Sends and receives use
// one connection per rank and direction.
//
// One thread at a time may use it.
class NcclConnections {
 public:
  // Returns whether operations like these have run before.
  bool suffice_for(std::span<const NcclStep> steps) const;
  // These operations have run.
  void add(std::span<const NcclStep> steps);

 private:
  using Kind =
      std::tuple<NcclFunction, NcclType, NcclOp, std::size_t>;  // the last one is the number of digits of a size
  using Transfer = std::pair<NcclFunction, int>;

  // Returns the kinds of the collectives among the steps, in an order that does not depend on theirs.
  static std::vector<Kind> collectives(std::span<const NcclStep> steps);

  std::set<std::vector<Kind>> groups_;
  std::set<Transfer> transfers_;
};

}  // namespace ddp::internal
