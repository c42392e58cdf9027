// Completes what NCCL's profiler plug-in shows of the ranks, as a pure function: which collectives cannot be done yet.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "launcher/run/ranks/rank_view.h"

namespace ddp::launcher {

// The first number at which the members of a group have called different collectives.
using LaunchDifferences = std::map<GroupKey, std::uint64_t>;

// Returns the differences between calls, as far as these views contain calls. `known` are those that were seen before:
// a view without calls does not change them until all members have called much since.
LaunchDifferences differences_of(const std::vector<RankView>& ranks, bool has_calls, const LaunchDifferences& known);

// Sets `finished` of each group that counts launches to the last collective that may be done. A collective that waits
// for all members is not done until all have called it, and one that waits for its root is not done until the root has.
// A receive is not done until the other side has sent. All other calls count as done, and so do those from the first
// difference on until `differences` says so. Equal counts prove nothing: a kernel may hang although all have called it.
// If kernels are followed, the newest that has begun on a GPU is not done where its end was not shown.
void complete_launches(std::vector<RankView>& ranks, const LaunchDifferences& differences);

}  // namespace ddp::launcher
