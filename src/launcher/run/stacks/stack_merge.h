// Shows the stacks of many ranks in a few lines: which ranks are at which place, the odd one first.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "launcher/run/stacks/stack_text.h"

namespace ddp::launcher {

struct MergedStack {
  std::vector<int> ranks;  // in ascending order
  std::string thread;      // name of the thread, from the lowest rank
  std::vector<std::string> frames;

  friend bool operator==(const MergedStack&, const MergedStack&) = default;
};

// Merges the stacks of the ranks' first threads that are at the same place. Hexadecimal numbers (addresses and offsets)
// make no difference. The frames are those of the lowest rank. The stack of the fewest ranks comes first. Among stacks
// of equally many ranks, the one of the lowest rank comes first. Ranks without a stack are left out.
std::vector<MergedStack> merge_stacks(std::span<const RankStacks> ranks);

// Returns at most `most_lines` lines of about 120 columns for the console:
//   rank 1: load (data.py:8) ← train_epoch (train.py:40) ← <module> (train.py:77)
//   ranks 0, 2-3: ddp::Work::wait ← train_epoch ← main
// The lines leave out calls within Python's libraries, the ways in which the C library waits, and the frames before
// main. Stacks that differ only in these are merged. The lines also leave out frames without a name, and outer places
// in the source for which there is no space.
std::vector<std::string> essence(std::span<const MergedStack> stacks, std::size_t most_lines);

}  // namespace ddp::launcher
