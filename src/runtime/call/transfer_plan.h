// TransferPlan describes which data a collective moves between which ranks. It depends only on a Call.
#pragma once

#include "runtime/call/call.h"

namespace ddp::internal {

// In every collective except barrier, each rank gives something to each rank and takes something from each rank.
// all_reduce and reduce move the parts that each rank reduces; see CpuBackend.
struct TransferPlan {
  const Call& call;
  int rank = 0;
  int size = 1;

  // Returns whether a rank gives the same data to all ranks that take from it.
  bool shared() const;
  // Returns whether the data that are taken from all ranks are reduced to one part.
  bool reduces() const { return call.operation == Operation::reduce_scatter; }
  bool gives(int from) const {
    const bool only_root_gives = call.operation == Operation::broadcast || call.operation == Operation::scatter;
    return !only_root_gives || from == call.peer;
  }

  // These functions return the data that this rank gives to another rank, and the place for the data that it takes from
  // another. The buffer is empty if nothing is moved. With reduces(), the place is the same for all ranks.
  ConstBuffer given_to(int other) const;
  Buffer taken_from(int other) const;
  // Moves the data that this rank gives to itself, unless they are already in place.
  void keep_own() const;
};

}  // namespace ddp::internal
