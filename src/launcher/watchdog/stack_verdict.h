// Joins stacks with verdicts: what a rank waits for according to its stack counts as a call of a group of all ranks.
// docs/development/decisions/0043-stacks-of-pytorch-programs.md
#pragma once

#include "launcher/watchdog/hang_news.h"

namespace ddp::launcher {

// Adds to `view` that its rank waits for this call, in a group of `size` ranks. If the call is unknown, its text is
// empty.
void add_wait_by_stack(RankView& view, int size, const CallView& call);

// If `news` says that no rank waits in a known collective, and its stacks show that some ranks wait in an operation of
// a PyTorch process group and others do not, makes these others the suspects. Ranks whose stacks do not show what they
// wait for are left out. Stacks prove nothing, so the verdict is never certain.
void name_suspects_by_stacks(HangNews& news);

}  // namespace ddp::launcher
