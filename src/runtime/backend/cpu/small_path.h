// Decides how a small collective of one node moves its data. The functions are pure, and every rank gets the same
// result. A size is the number of bytes that a rank stages: its input, or the largest part of an all_gather.
#pragma once

#include <cstddef>
#include <limits>

#include "runtime/call/call.h"

namespace ddp::internal {

// Up to this size, one copy into the staging buffer and one out of it are cheaper than two more rounds. Returns 0 for
// operations that are never eager.
constexpr std::size_t eager_up_to(Operation operation, std::size_t ranks) {
  switch (operation) {
    case Operation::all_reduce:
    case Operation::reduce:
      // Every rank reads all staged bytes. If there are more of them, it is cheaper if the ranks divide the reduction.
      return (std::size_t{64} << 10) / ranks;
    case Operation::broadcast:
    case Operation::all_gather:
    case Operation::reduce_scatter:
      return std::size_t{32} << 10;
    default:
      return 0;
  }
}

// Up to this size, a copy into the staging buffer is cheaper than one more round. Each copied cache line moves twice
// between the processors. Above it, a rank leaves its data in place if all ranks have mapped them. If ranks share
// processors, a round takes a change of processes, so all sizes are copied. The sizes are those of two ranks.
constexpr std::size_t copied_up_to(Operation operation, bool has_processor_each) {
  if (!has_processor_each) return std::numeric_limits<std::size_t>::max();
  switch (operation) {
    case Operation::all_reduce:
      return 512;
    case Operation::all_gather:
      return 1024;
    case Operation::reduce_scatter:
      return 4096;
    default:
      return 2048;
  }
}

enum class SmallPath {
  copied,      // the data are in the staging buffers after the first round
  near,        // all ranks read the data in place
  copied_late  // some ranks can show their data and have not copied them; a second round copies all data
};

// If the size is above copied_up_to(): `givers` ranks give data, and all ranks have mapped the data of `near` of them.
constexpr SmallPath small_path(std::size_t givers, std::size_t near) {
  if (near == 0) return SmallPath::copied;
  return near == givers ? SmallPath::near : SmallPath::copied_late;
}

}  // namespace ddp::internal
