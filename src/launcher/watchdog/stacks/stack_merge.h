// The stacks of many ranks in a few lines: who stands where, the odd one first.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "launcher/watchdog/stacks/stack_text.h"

namespace ddp::launcher {

struct MergedStack {
  std::vector<int> ranks;  // ascending
  std::string thread;      // its name, of the lowest rank
  std::vector<std::string> frames;

  friend bool operator==(const MergedStack&, const MergedStack&) = default;
};

// The first threads of the ranks; those that stand at the same place are one. Hexadecimal numbers (addresses, which are
// others in each process, and offsets) make no difference; the frames are those of the lowest rank. The stack of the
// fewest ranks comes first, of several that of the lowest rank. A rank without a stack is not among them.
std::vector<MergedStack> merge_stacks(std::span<const RankStacks> ranks);

// For the console, at most `most_lines` lines of some 120 columns:
//   rank 1: load (data.py:8) ← train_epoch (train.py:40) ← <module> (train.py:77)
//   ranks 0, 2-3: ddp::Work::wait ← train_epoch ← main
// Left out: what Python's libraries call among themselves, how the C library waits, the frames before main, those
// without a name, and the outer places in the source for which there is no room. Stacks that differ in nothing but the
// first three are one.
std::vector<std::string> essence(std::span<const MergedStack> stacks, std::size_t most_lines);

}  // namespace ddp::launcher
