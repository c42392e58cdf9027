// Represents ranks as members of groups, and finds the calls in which the members of a group differ, and those that a
// member did not finish. All functions are pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "launcher/run/ranks/verdict.h"

namespace ddp::launcher {

// Represents a rank as a member of a group.
struct Member {
  const RankView* rank = nullptr;
  const GroupView* group = nullptr;
  std::size_t index = 0;  // index of the group on the rank's page
};

using Groups = std::map<GroupKey, std::vector<Member>>;

// Leaves out groups in which a rank or a place appears twice: those are several groups that cannot be distinguished.
Groups members_by_group(std::span<const RankView> ranks);

// Returns the member's call of this number, or null if its page does not contain it.
const CallView* call_of(const Member& member, std::uint64_t sequence);

// Returns a verdict on the member's group, whose kind is not set yet.
Verdict verdict_on(const Member& member, std::uint64_t sequence);

template <typename Condition>
std::vector<int> ranks_that(const std::vector<Member>& members, const Condition& condition) {
  std::vector<int> result;
  for (const Member& member : members) {
    if (condition(member)) result.push_back(member.rank->rank);
  }
  std::ranges::sort(result);
  return result;
}

// Finds the first number on the pages at which calls differ, and describes the difference in `verdict`. All calls after
// it differ, too. Returns false if there is none.
bool find_first_difference(const std::vector<Member>& members, Verdict& verdict);

// Finds the difference that made a rank fail. PyTorch counts a call that has failed as completed, and differences
// before the last one did no harm. For the runtime itself, it is the first difference.
bool find_fatal_difference(const std::vector<Member>& members, Verdict& verdict);

// Returns the first calls in which ranks differ, whether they still wait, failed or ended. If a rank has failed because
// of a difference, returns the calls that made it fail. Returns std::nullopt if no calls differ.
std::optional<Verdict> find_difference(std::span<const RankView> ranks, bool a_rank_failed = false);

// Returns a collective that this ended rank called and did not finish, or std::nullopt if there is none. If
// `failed_too`, groups that failed count, too.
std::optional<Verdict> find_unfinished(const RankView& rank, bool failed_too);

// Compares two ranks' calls of the same number that differ. Returns different_call or different_arguments.
VerdictKind compare_calls(const CallView& one, const CallView& other);

}  // namespace ddp::launcher
