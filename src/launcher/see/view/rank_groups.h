// These functions choose which ranks a view shows, in which order, and which of them share a row. They are pure.
#pragma once

#include <string_view>
#include <vector>

#include "launcher/see/view/job_snapshot.h"
#include "launcher/see/view/top_view.h"

namespace ddp::launcher {

// Contains ranks that share a row. `figures` are those of the only rank. Otherwise shares, rates and CPUs are means,
// memory and the age of the collective are maxima, and the steps and the age of the output are minima.
struct RankGroup {
  std::vector<int> ranks;  // ascending
  RankRow figures;
  bool is_culprit = false;
};

// Returns whether the others wait for this rank so often that a view marks it.
bool is_waited_for(const RankRow& rank);

// Returns the ranks that match `filter`, one per group, in the order of `order`.
std::vector<RankGroup> single_ranks(const JobSnapshot& snapshot, std::string_view filter, RankOrder order);

// Joins ranks that have the same node, state and phase, and nearly equal figures.
std::vector<RankGroup> joined(const std::vector<RankGroup>& singles);

bool has_stall(const JobSnapshot& snapshot);

// Sorts as single_ranks() does.
void sort_ranks(std::vector<RankGroup>& groups, RankOrder order, bool is_stalled);

// Returns the ranks that need attention most, first: culprits, ranks that are waited for, stopped and slow ones.
std::vector<RankGroup> worst_of(std::vector<RankGroup> singles, std::size_t most);

}  // namespace ddp::launcher
