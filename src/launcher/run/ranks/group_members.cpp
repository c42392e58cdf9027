#include "launcher/run/ranks/group_members.h"

#include <cstddef>
#include <set>
#include <utility>

#include "launcher/run/ranks/waits.h"

namespace ddp::launcher {
namespace {

constexpr std::uint64_t kCallsAround = 2;  // before a difference, and after it

// Adds the calls of two members around the first call in which they differ.
void add_calls_around(const Member& one, const Member& other, std::uint64_t sequence, Verdict& verdict) {
  for (const Member* member : {&one, &other}) {
    for (const CallView& call : member->rank->calls[member->index]) {
      const bool is_before = call.sequence < sequence && call.sequence + kCallsAround >= sequence;
      const bool is_after = call.sequence > sequence && call.sequence <= sequence + kCallsAround;
      // The calls before are the same for both.
      if ((is_before && member == &one) || is_after) verdict.around.push_back({member->rank->rank, call});
    }
  }
  std::ranges::stable_sort(verdict.around,
                           [](const RankCall& a, const RankCall& b) { return a.call.sequence < b.call.sequence; });
}

// Returns whether all members that are known to have called the collective of this number have finished it. Then
// differences do not matter to PyTorch's backends. The fingerprints of the runtime itself cover all calls so far.
bool was_completed(const std::vector<Member>& members, std::uint64_t sequence) {
  return std::ranges::all_of(members, [&](const Member& member) {
    return member.group->is_sampled && (member.group->called < sequence || member.group->finished >= sequence);
  });
}

// Finds members whose call of this number differs from the call of most members. Returns false if there are none.
bool find_different_calls(const std::vector<Member>& members, std::uint64_t sequence, Verdict& verdict) {
  std::map<std::uint64_t, std::vector<Member>> by_fingerprint;
  for (const Member& member : members) {
    const CallView* const call = call_of(member, sequence);
    if (call != nullptr && call->fingerprint != 0) by_fingerprint[call->fingerprint].push_back(member);
  }
  if (by_fingerprint.size() < 2) return false;
  std::vector<std::vector<Member>> sides;
  std::size_t callers = 0;
  for (auto& [fingerprint, side] : by_fingerprint) {
    callers += side.size();
    sides.push_back(std::move(side));
  }
  // The largest side comes first. Among equal ones, the side with the lowest rank comes first.
  std::ranges::sort(sides, [](const auto& a, const auto& b) {
    return std::pair(b.size(), a.front().rank->rank) < std::pair(a.size(), b.front().rank->rank);
  });
  const bool nobody_knows = sides[0].size() == sides[1].size();
  std::vector<Member> culprits;
  for (std::size_t i = nobody_knows ? 0 : 1; i < sides.size(); ++i) {
    culprits.insert(culprits.end(), sides[i].begin(), sides[i].end());
  }
  const Member& one = sides[0].front();
  const Member& other = sides[1].front();
  verdict.is_open = nobody_knows && callers < static_cast<std::size_t>(members.front().group->size);
  verdict.culprits = ranks_that(culprits, [](const Member&) { return true; });
  verdict.sides = {{one.rank->rank, *call_of(one, sequence)}, {other.rank->rank, *call_of(other, sequence)}};
  // NCCL does not compare the calls of ranks, so such a collective may end, with wrong results.
  verdict.is_doubtful = members.front().group->launches.has_value();
  verdict.kind = compare_calls(verdict.sides[0].call, verdict.sides[1].call);
  add_calls_around(one, other, sequence, verdict);
  return true;
}

std::set<std::uint64_t> numbers_of_calls(const std::vector<Member>& members) {
  std::set<std::uint64_t> numbers;
  for (const Member& member : members) {
    if (member.index >= member.rank->calls.size()) continue;
    for (const CallView& call : member.rank->calls[member.index]) numbers.insert(call.sequence);
  }
  return numbers;
}

}  // namespace

Groups members_by_group(std::span<const RankView> ranks) {
  Groups result;
  for (const RankView& rank : ranks) {
    for (std::size_t i = 0; i < rank.page.groups.size(); ++i) {
      result[key_of(rank.page.groups[i])].push_back({&rank, &rank.page.groups[i], i});
    }
  }
  std::erase_if(result, [](const auto& entry) {
    std::set<const RankView*> seen;
    std::set<int> places;
    return std::ranges::any_of(entry.second, [&](const Member& member) {
      return !seen.insert(member.rank).second || !places.insert(member.group->rank).second;
    });
  });
  return result;
}

Verdict verdict_on(const Member& member, std::uint64_t sequence) {
  Verdict verdict;
  verdict.group = member.group->name;
  verdict.group_size = member.group->size;
  verdict.group_identity = member.group->identity;
  verdict.is_by_stack = member.group->is_by_stack;
  verdict.sequence = sequence;
  return verdict;
}

const CallView* call_of(const Member& member, std::uint64_t sequence) {
  if (member.index >= member.rank->calls.size()) return nullptr;
  const auto& calls = member.rank->calls[member.index];
  const auto found = std::ranges::find_if(calls, [&](const CallView& call) { return call.sequence == sequence; });
  return found == calls.end() ? nullptr : &*found;
}

bool find_first_difference(const std::vector<Member>& members, Verdict& verdict) {
  return std::ranges::any_of(numbers_of_calls(members), [&](std::uint64_t sequence) {
    return !was_completed(members, sequence) && find_different_calls(members, sequence, verdict);
  });
}

bool find_fatal_difference(const std::vector<Member>& members, Verdict& verdict) {
  if (!members.front().group->is_sampled) return find_first_difference(members, verdict);
  const std::set<std::uint64_t> numbers = numbers_of_calls(members);
  return std::any_of(numbers.rbegin(), numbers.rend(),
                     [&](std::uint64_t sequence) { return find_different_calls(members, sequence, verdict); });
}

std::optional<Verdict> find_difference(std::span<const RankView> ranks, bool a_rank_failed) {
  const auto& find = a_rank_failed ? find_fatal_difference : find_first_difference;
  for (const auto& [key, members] : members_by_group(ranks)) {
    Verdict verdict = verdict_on(members.front(), 0);
    if (verdict.is_by_stack || !find(members, verdict)) continue;
    verdict.sequence = verdict.sides.front().call.sequence;
    verdict.call = describe(verdict.sides.front().call);
    verdict.waiting = ranks_that(members, waits);
    return verdict;
  }
  return std::nullopt;
}

std::optional<Verdict> find_unfinished(const RankView& rank, bool failed_too) {
  for (std::size_t i = 0; i < rank.page.groups.size(); ++i) {
    const GroupView& group = rank.page.groups[i];
    if ((group.is_left && !failed_too) || group.called <= group.finished) continue;
    // The rank may have finished what a reader saw, and may have called much since.
    if (group.is_sampled && !(group.is_final && failed_too)) continue;
    Verdict verdict = verdict_on({&rank, &group, i}, group.finished + 1);
    verdict.kind = VerdictKind::ended;
    verdict.culprits = {rank.rank};
    if (const CallView* call = call_of({&rank, &group, i}, verdict.sequence)) verdict.call = describe(*call);
    return verdict;
  }
  return std::nullopt;
}

VerdictKind compare_calls(const CallView& one, const CallView& other) {
  const auto operation = [](const CallView& call) { return call.what.substr(0, call.what.find(' ')); };
  const bool is_same = operation(one) == operation(other) && one.name == other.name;
  return is_same ? VerdictKind::different_arguments : VerdictKind::different_call;
}

}  // namespace ddp::launcher
