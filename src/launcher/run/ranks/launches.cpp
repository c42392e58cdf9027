#include "launcher/run/ranks/launches.h"

#include <algorithm>

#include "base/text.h"
#include "wire/status_page_layout.h"

namespace ddp::launcher {
namespace {

struct Launcher {
  RankView* rank;
  GroupView* group;
  std::size_t index;
};
using Members = std::vector<Launcher>;  // ordered by their rank in the group

int rank_of(const Launcher& member) {
  return member.group->rank;
}

std::map<GroupKey, Members> members_of(std::vector<RankView>& ranks) {
  std::map<GroupKey, Members> groups;
  for (RankView& rank : ranks) {
    for (std::size_t i = 0; i < rank.page.groups.size(); ++i) {
      GroupView& group = rank.page.groups[i];
      // Until NCCL 2.26, the size of a communicator is unknown.
      if (group.launches) groups[{group.identity, "", 0}].push_back({&rank, &group, i});
    }
  }
  for (auto& [key, members] : groups) std::ranges::sort(members, {}, rank_of);
  return groups;
}

std::uint64_t least_called(const Members& members) {
  std::uint64_t least = UINT64_MAX;
  for (const Launcher& member : members) least = std::min(least, member.group->called);
  return least;
}

const Launcher* member_with(const Members& members, int rank) {
  const auto found = std::ranges::lower_bound(members, rank, {}, rank_of);
  return found == members.end() || rank_of(*found) != rank ? nullptr : &*found;
}

// Returns how many sends from this member to the other one have been called, or std::nullopt if its page may lack them.
std::optional<std::uint64_t> sent(const Launcher& from, int to) {
  std::uint64_t shown = 0;
  for (const TransferView& transfer : from.group->transfers) {
    if (transfer.is_send && transfer.peer == to) return transfer.number;
    shown += transfer.number;
  }
  return shown == from.group->transfers_called ? std::optional<std::uint64_t>(0) : std::nullopt;
}

// A send may be done before the other side has called: NCCL has room for small messages.
void complete_transfers(const Launcher& member, const Members& members) {
  std::uint64_t pending = 0;
  for (TransferView& transfer : member.group->transfers) {
    transfer.is_done = true;
    if (transfer.is_send) continue;
    const Launcher* const peer = member_with(members, transfer.peer);
    const auto number = peer == nullptr ? std::nullopt : sent(*peer, member.group->rank);
    if (!number || *number >= transfer.number) continue;
    pending += transfer.number - *number;
    transfer.number = *number + 1;
    transfer.is_done = false;
    transfer.is_waited_for = true;
  }
  member.group->transfers_finished = member.group->transfers_called - std::min(pending, member.group->transfers_called);
}

std::uint64_t finished_of(const Launcher& member, const Members& members, std::uint64_t least) {
  const LaunchView& launches = *member.group->launches;
  std::uint64_t finished = member.group->called;
  if (launches.waits_for_all > least) finished = least;
  const Launcher* const root = launches.waits_for_one == 0 ? nullptr : member_with(members, launches.root);
  if (root != nullptr && launches.waits_for_one > root->group->called) {
    finished = std::min(finished, root->group->called);
  }
  return finished;
}

// Returns the newest collective whose kernel has begun on a member's GPU, as far as kernels are followed; 0 if none.
std::uint64_t newest_begun(const Members& members) {
  std::uint64_t newest = 0;
  for (const Launcher& member : members) {
    if (member.group->launches->kernels_from > 0) newest = std::max(newest, member.group->gpu_started);
  }
  return newest;
}

// A kernel that has begun on a member's own GPU, or on another one, is not done there before its end is shown. Of older
// kernels, and of those that no GPU has begun, an event may be missing: NCCL does not follow each kind of kernel.
std::uint64_t shown_finished(const Launcher& member, std::uint64_t finished, std::uint64_t newest) {
  const GroupView& group = *member.group;
  if (group.launches->kernels_from == 0) return finished;
  for (const std::uint64_t begun : {group.gpu_started, newest}) {
    if (begun >= group.launches->kernels_from && group.gpu_finished < begun) return std::min(finished, begun - 1);
  }
  return finished;
}

// Names a communicator by its ranks, if all of them are known and the list is short.
void name_by_ranks(const Members& members) {
  const GroupView& first = *members.front().group;
  if (first.launches->is_named || members.size() != static_cast<std::size_t>(first.size)) return;
  std::vector<int> ranks;
  for (const Launcher& member : members) ranks.push_back(member.rank->rank);
  std::ranges::sort(ranks);
  const std::string list = base::rank_list(ranks);
  constexpr std::size_t kLongest = 32;
  if (list.size() > kLongest) return;
  for (const Launcher& member : members) member.group->name = "ranks " + list;
}

void complete(const Members& members, std::uint64_t difference) {
  const std::uint64_t least = least_called(members);
  const std::uint64_t newest = newest_begun(members);
  int size = 0;
  for (const Launcher& member : members) size = std::max(size, member.group->size);
  for (const Launcher& member : members) {
    GroupView& group = *member.group;
    group.size = size;
    group.is_final = member.rank->has_ended && group.is_live;  // RAS may have been asked before the last calls
    group.finished = shown_finished(member, std::min(finished_of(member, members, least), difference - 1), newest);
    group.gpu_started = group.launches->kernels_from > 0 ? std::max(group.gpu_started, group.finished) : group.finished;
    group.gpu_finished = group.finished;
    complete_transfers(member, members);
  }
  name_by_ranks(members);
}

void complete_as_if_done(const Members& members) {
  for (const Launcher& member : members) {
    for (TransferView& transfer : member.group->transfers) transfer.is_done = true;
    member.group->transfers_finished = member.group->transfers_called;
  }
}

// Returns whether each member is known once, and the counts of all of them are complete.
bool can_be_compared(const Members& members) {
  const auto is_complete = [](const Launcher& member) { return member.group->launches->is_complete; };
  return std::ranges::all_of(members, is_complete) && std::ranges::adjacent_find(members, {}, rank_of) == members.end();
}

// Returns 0 if the calls that are shown do not differ.
std::uint64_t first_difference(const Members& members) {
  std::map<std::uint64_t, std::uint64_t> fingerprints;
  std::uint64_t first = 0;
  for (const Launcher& member : members) {
    if (member.index >= member.rank->calls.size()) continue;
    for (const CallView& call : member.rank->calls[member.index]) {
      if (call.fingerprint == 0) continue;
      const bool is_same = fingerprints.try_emplace(call.sequence, call.fingerprint).first->second == call.fingerprint;
      if (!is_same && (first == 0 || call.sequence < first)) first = call.sequence;
    }
  }
  return first;
}

}  // namespace

LaunchDifferences differences_of(const std::vector<RankView>& ranks, bool has_calls, const LaunchDifferences& known) {
  LaunchDifferences differences;
  const bool counts_launches = std::ranges::any_of(ranks, [](const RankView& rank) {
    return std::ranges::any_of(rank.page.groups, [](const GroupView& group) { return group.launches.has_value(); });
  });
  if (!counts_launches || (!has_calls && known.empty())) return differences;
  std::vector<RankView> copies = ranks;
  for (const auto& [key, members] : members_of(copies)) {
    const auto before = known.find(key);
    const std::uint64_t first = has_calls ? first_difference(members) : before == known.end() ? 0 : before->second;
    if (first != 0 && least_called(members) < first + wire::kPageCalls) differences[key] = first;
  }
  return differences;
}

void complete_launches(std::vector<RankView>& ranks, const LaunchDifferences& differences) {
  for (const auto& [key, members] : members_of(ranks)) {
    const auto difference = differences.find(key);
    if (!can_be_compared(members)) {
      complete_as_if_done(members);
    } else {
      complete(members, difference == differences.end() ? UINT64_MAX : difference->second);
    }
  }
}

}  // namespace ddp::launcher
