// TransferPlan: what a collective moves between which ranks; a pure description of a Call.
#pragma once

#include "runtime/call/call.h"

namespace ddp::internal {

// Every collective but barrier: each rank gives something to each rank, and takes something from each. With all_reduce
// and reduce what is moved are the parts that each rank reduces; see CpuBackend.
struct TransferPlan {
  const Call& call;
  int rank = 0;
  int size = 1;

  // Whether a rank gives the same to all that take from it.
  bool shared() const;
  // Whether what is taken from all ranks is reduced to one part.
  bool reduces() const { return call.operation == Operation::reduce_scatter; }
  bool gives(int from) const {
    const bool only_root_gives = call.operation == Operation::broadcast || call.operation == Operation::scatter;
    return !only_root_gives || from == call.peer;
  }

  // What this rank gives to another, and where what it takes from another goes; empty if nothing. With reduces() the
  // place is the same for all.
  ConstBuffer given_to(int other) const;
  Buffer taken_from(int other) const;
  // Moves what this rank gives itself, unless it is there already.
  void keep_own() const;
};

}  // namespace ddp::internal
