// Joins what was taken of a job that hangs with the verdict on it.
// docs/development/decisions/0043-stacks-of-pytorch-programs.md
#pragma once

#include "launcher/run/watchdog/hang_news.h"

namespace ddp::launcher {

// If `news` says that no rank waits in a known collective, and its stacks show that some ranks wait in an operation of
// a PyTorch process group and others do not, makes these others the suspects. It does the same if earlier stacks, of
// which some could not be read in time, seemed to show that all ranks wait for the same operation. Ranks whose stacks
// do not show what they wait for are left out. Stacks prove nothing, so the verdict is never certain.
void name_suspects_by_stacks(HangNews& news);

// If NCCL's RAS has counted fewer operations on just the ranks that the verdict names, one line says so in place of the
// lines that repeat it. Other lines of RAS stay, and so do all of them if it counts otherwise.
void join_ras(HangNews& news);

}  // namespace ddp::launcher
