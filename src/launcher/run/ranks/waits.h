// Says who waits for whom, as a pure function of what the ranks show. No other file says it.
#pragma once

#include <span>
#include <vector>

#include "launcher/run/ranks/group_members.h"
#include "launcher/run/ranks/rank_state.h"
#include "launcher/run/ranks/rank_view.h"
#include "launcher/run/ranks/verdict.h"

namespace ddp::launcher {

// Returns whether a rank that has a collective under way waits for it: a thread waits, or asks again and again whether
// it is done. A rank that does something else meanwhile does not wait. If a program does not show what its threads do,
// or if it may wait for its GPU, it counts as waiting.
bool may_wait(const RankView& rank);
// Returns whether the member waits in a collective of its group.
bool waits(const Member& member);
// Returns whether all threads that call operations wait, and no continuation of the program runs.
bool only_waits(const RankView& rank);
// Returns whether a group of the rank puts its collectives on a GPU's stream.
bool uses_gpu(const RankView& rank);

// Returns the operations in which ranks wait, with the ranks for which they wait. Each one considers its own operation
// only: a rank that is waited for may wait itself (see find_verdicts()).
std::vector<Verdict> find_waits(std::span<const RankView> ranks);

// Says what a rank does at this moment, for the views of a job.
struct RankMoment {
  RankState state = RankState::unknown;
  bool is_awaited = false;  // it has not called a collective of a group in which another rank waits already
};

// Returns the moments of these ranks, in their order. A rank waits if a thread of its program waits, or if a reader of
// PyTorch shows an unfinished collective.
std::vector<RankMoment> moments_of(std::span<const RankView> ranks);

}  // namespace ddp::launcher
