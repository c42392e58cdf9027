#include "launcher/watchdog/verdict.h"

#include <array>
#include <chrono>
#include <map>
#include <set>
#include <utility>

#include "launcher/limits.h"
#include "launcher/watchdog/root_causes.h"
#include "launcher/watchdog/torch_stacks.h"
#include "wire/status_page_layout.h"

namespace ddp::launcher {
namespace {

struct Text {
  std::string_view code;
  std::string_view title;
};
constexpr std::array<Text, 10> kTexts = {
    Text{"DDP-H01", "ended"},
    {"DDP-H02", "stopped"},
    {"DDP-H03", "not called"},
    {"DDP-H04", "different collective"},
    {"DDP-H05", "different arguments"},
    {"DDP-H06", "wait for each other"},
    {"DDP-H07", "transport"},
    {"DDP-H08", "no sign of life"},
    {"DDP-H09", "behind"},
    {"DDP-H10", "GPU behind"},
};

// Represents a rank as a member of a group.
struct Member {
  const RankView* rank = nullptr;
  const GroupView* group = nullptr;
  std::size_t index = 0;  // index of the group on the rank's page
};

using Groups = std::map<GroupKey, std::vector<Member>>;

// Leaves out groups in which a rank or a place appears twice: those are several groups that cannot be distinguished.
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

// Returns a verdict on a group, whose kind is not set yet.
Verdict verdict_on(const Member& member, std::uint64_t sequence) {
  Verdict verdict;
  verdict.group = member.group->name;
  verdict.group_size = member.group->size;
  verdict.group_identity = member.group->identity;
  verdict.is_by_stack = member.group->is_by_stack;
  verdict.sequence = sequence;
  return verdict;
}

bool waits(const Member& member) {
  const GroupView& group = *member.group;
  // A continuation holds up an operation that has not begun. Such an operation waits for no other rank.
  if (member.rank->page.continuations > 0 && group.started <= group.finished) return false;
  return may_wait(*member.rank) && !member.rank->has_ended && !group.is_left && group.called > group.finished;
}

const CallView* call_of(const Member& member, std::uint64_t sequence) {
  if (member.index >= member.rank->calls.size()) return nullptr;
  const auto& calls = member.rank->calls[member.index];
  const auto found = std::ranges::find_if(calls, [&](const CallView& call) { return call.sequence == sequence; });
  return found == calls.end() ? nullptr : &*found;
}

template <typename Condition>
std::vector<int> ranks_that(const std::vector<Member>& members, const Condition& condition) {
  std::vector<int> result;
  for (const Member& member : members) {
    if (condition(member)) result.push_back(member.rank->rank);
  }
  std::ranges::sort(result);
  return result;
}

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
  verdict.kind = compare_calls(verdict.sides[0].call, verdict.sides[1].call);
  add_calls_around(one, other, sequence, verdict);
  return true;
}

// Finds the first number on the pages at which calls differ. All calls after it differ, too.
bool find_first_difference(const std::vector<Member>& members, Verdict& verdict) {
  std::set<std::uint64_t> sequences;
  for (const Member& member : members) {
    if (member.index >= member.rank->calls.size()) continue;
    for (const CallView& call : member.rank->calls[member.index]) sequences.insert(call.sequence);
  }
  return std::ranges::any_of(sequences,
                             [&](std::uint64_t sequence) { return find_different_calls(members, sequence, verdict); });
}

// Returns the world ranks that have no place in the group, because they have left it or have not made it. Returns an
// empty list if they could be on other nodes, or if their numbers are unknown.
std::vector<int> missing_ranks(const GroupView& group, const std::vector<Member>& members,
                               std::span<const RankView> ranks) {
  std::vector<int> result;
  if (group.name != "world" || group.size != static_cast<int>(ranks.size())) return result;
  std::set<const RankView*> present;
  for (const Member& member : members) present.insert(member.rank);
  for (const RankView& rank : ranks) {
    if (!present.contains(&rank)) result.push_back(rank.rank);
  }
  return result;
}

// Returns whether stacks show that a member waits in this operation.
bool one_is_in(std::string_view operation, const std::vector<Member>& members) {
  return std::ranges::any_of(members, [&](const Member& member) {
    const CallView* const call = member.group->is_by_stack ? call_of(member, 1) : nullptr;
    return call != nullptr && call->what == operation;
  });
}

std::optional<Verdict> verdict_of(const std::vector<Member>& members, std::span<const RankView> ranks) {
  const auto first = std::ranges::min_element(members, [](const Member& a, const Member& b) {
    return std::pair(!waits(a), a.group->finished) < std::pair(!waits(b), b.group->finished);
  });
  if (!waits(*first)) return std::nullopt;
  const std::uint64_t sequence = first->group->finished + 1;
  Verdict verdict = verdict_on(*first, sequence);
  const auto missing = missing_ranks(*first->group, members, ranks);
  verdict.is_partial = members.size() + missing.size() < static_cast<std::size_t>(first->group->size);
  const CallView* const call = call_of(*first, sequence);
  if (call != nullptr) verdict.call = verdict.is_by_stack ? describe_with_place(*call) : describe(*call);
  verdict.waiting = ranks_that(members, [&](const Member& m) {
    return waits(m) && m.group->finished < sequence && m.group->called >= sequence;
  });
  // Missing ranks have called nothing.
  std::map<const RankView*, const GroupView*> groups;
  for (const Member& member : members) groups[member.rank] = member.group;
  for (const RankView& rank : ranks) {
    if (std::ranges::find(missing, rank.rank) != missing.end()) groups.try_emplace(&rank, nullptr);
  }
  const auto culprits_that = [&](const auto& condition) {
    std::vector<int> result;
    for (const RankView& rank : ranks) {
      const auto found = groups.find(&rank);
      if (found == groups.end()) continue;
      const GroupView* group = found->second;
      if (group != nullptr && group->finished >= sequence) continue;
      if (condition(rank, group == nullptr ? 0 : group->called)) result.push_back(rank.rank);
    }
    return result;
  };
  // The nearest cause comes first: a rank that has ended or is stopped cannot call.
  const std::array<std::pair<VerdictKind, std::vector<int>>, 3> causes = {{
      {VerdictKind::ended, culprits_that([](const RankView& rank, std::uint64_t) { return rank.has_ended; })},
      {VerdictKind::stopped,
       culprits_that([](const RankView& rank, std::uint64_t) { return rank.process && rank.process->is_stopped(); })},
      {VerdictKind::not_called,
       culprits_that([&](const RankView&, std::uint64_t called) { return called < sequence; })},
  }};
  for (const auto& [kind, culprits] : causes) {
    if (culprits.empty()) continue;
    verdict.kind = kind;
    verdict.culprits = culprits;
    return verdict;
  }
  // The GPUs may just compute.
  if (one_is_in(kGpuSynchronization, members)) return std::nullopt;
  verdict.kind = VerdictKind::transport;
  const bool they_differ = find_first_difference(members, verdict);
  if (one_is_in("recv", members) || one_is_in("send", members)) {
    verdict.kind = VerdictKind::each_other;
    verdict.culprits = verdict.waiting;
    return verdict;
  }
  if (they_differ) return verdict;
  // Other ranks wait for a call that a rank holds back.
  verdict.culprits = ranks_that(members, [&](const Member& m) { return m.group->started < sequence; });
  verdict.is_held = !verdict.culprits.empty() && verdict.culprits.size() < members.size();
  if (verdict.is_held) {
    verdict.kind = VerdictKind::not_called;
    std::erase_if(verdict.waiting, [&](int rank) { return verdict.blames(rank); });
    return verdict;
  }
  verdict.culprits = ranks_that(members, [&](const Member& m) {
    if (m.group->is_sampled) return false;  // PyTorch's recorder does not show what a GPU has started
    return waits(m) && m.group->gpu_queued >= sequence && m.group->gpu_started < sequence;
  });
  if (!verdict.culprits.empty()) verdict.kind = VerdictKind::gpu_behind;
  // The root of a broadcast may have done its part, and wait in a later operation for the same ranks.
  if (verdict.culprits.empty()) verdict.waiting = ranks_that(members, waits);
  return verdict;
}

// Returns the verdict on a send or a receive for which a thread waits, or std::nullopt if none does. Its other side has
// not called it, has called it without finishing, or cannot call it any more.
std::optional<Verdict> verdict_of(const Member& member, const TransferView& transfer,
                                  const std::vector<Member>& members) {
  if (member.rank->has_ended || member.group->is_left || transfer.is_done || !transfer.is_waited_for) {
    return std::nullopt;
  }
  Verdict verdict = verdict_on(member, transfer.number);
  verdict.is_transfer = true;
  verdict.waiting = {member.rank->rank};
  const auto peer =
      std::ranges::find_if(members, [&](const Member& other) { return other.group->rank == transfer.peer; });
  verdict.is_partial = peer == members.end();
  verdict.call = (transfer.is_send ? "recv " + transfer.what + " from rank " : "send " + transfer.what + " to rank ") +
                 std::to_string(member.rank->rank);
  verdict.kind = VerdictKind::transport;
  if (peer == members.end()) return verdict;
  const std::vector<TransferView>& theirs = peer->group->transfers;
  const auto counterpart = std::ranges::find_if(theirs, [&](const TransferView& their) {
    return their.is_send != transfer.is_send && their.peer == member.group->rank && their.number == transfer.number;
  });
  const bool has_called = counterpart != theirs.end();
  if (has_called) verdict.called_at = std::max(transfer.called_at, counterpart->called_at);
  // If the other side has done its part, the data may still be on its way.
  const bool has_done_its_part = has_called && counterpart->is_done;
  // A page may have too few places for all unfinished transfers. Then this one may be missing from it.
  const bool all_are_shown = theirs.size() < wire::kPageTransfers || theirs.back().is_done;
  if (has_called && !has_done_its_part && counterpart->what != transfer.what && !peer->rank->has_ended) {
    verdict.kind = VerdictKind::different_arguments;
    verdict.culprits = {member.rank->rank, peer->rank->rank};
    std::ranges::sort(verdict.culprits);
    return verdict;
  }
  if (has_done_its_part) return verdict;
  if (peer->rank->has_ended) {
    verdict.kind = VerdictKind::ended;
  } else if (peer->rank->process && peer->rank->process->is_stopped()) {
    verdict.kind = VerdictKind::stopped;
  } else if (!has_called && all_are_shown) {
    verdict.kind = VerdictKind::not_called;
  }
  if (verdict.kind != VerdictKind::transport) verdict.culprits = {peer->rank->rank};
  return verdict;
}

// Returns a verdict if ranks wait in init() for all ranks of the job, and some ended before they called it as often.
std::optional<Verdict> ended_before_init(std::span<const RankView> ranks) {
  Verdict verdict;
  verdict.kind = VerdictKind::ended;
  verdict.call = "init()";
  int entered = 0;
  for (const RankView& rank : ranks) {
    if (rank.has_ended || rank.page.awaited_world != static_cast<int>(ranks.size())) continue;
    entered = std::max(entered, rank.page.worlds_entered);
    verdict.waiting.push_back(rank.rank);
  }
  for (const RankView& rank : ranks) {
    if (rank.has_ended && rank.page.worlds_entered < entered) verdict.culprits.push_back(rank.rank);
  }
  return verdict.culprits.empty() ? std::nullopt : std::optional(verdict);
}

}  // namespace

std::string_view code_of(VerdictKind kind) {
  return kTexts[static_cast<std::size_t>(kind)].code;
}

std::string_view title_of(VerdictKind kind) {
  return kTexts[static_cast<std::size_t>(kind)].title;
}

std::optional<Verdict> find_difference(std::span<const RankView> ranks) {
  for (const auto& [key, members] : members_by_group(ranks)) {
    Verdict verdict = verdict_on(members.front(), 0);
    if (verdict.is_by_stack || !find_first_difference(members, verdict)) continue;
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
    // A collective that a reader saw as unfinished may have been finished since.
    if (((group.is_left || group.is_sampled) && !failed_too) || group.called <= group.finished) continue;
    if (group.is_by_stack) continue;
    Verdict verdict = verdict_on({&rank, &group, i}, group.finished + 1);
    verdict.kind = VerdictKind::ended;
    verdict.culprits = {rank.rank};
    if (const CallView* call = call_of({&rank, &group, i}, verdict.sequence)) verdict.call = describe(*call);
    return verdict;
  }
  return std::nullopt;
}

bool uses_gpu(const RankView& rank) {
  return std::ranges::any_of(rank.page.groups, [](const GroupView& group) { return group.gpu_queued > 0; });
}

bool may_wait(const RankView& rank) {
  const PageView& page = rank.page;
  const auto kept_asking = static_cast<std::uint64_t>(std::chrono::nanoseconds(limits::kPollingPause).count());
  const bool polls = page.polled_at != 0 && page.polled_at + kept_asking >= rank.seen_at;
  return page.waiting_threads > 0 || polls || uses_gpu(rank) || page.calling_threads == 0;
}

VerdictKind compare_calls(const CallView& one, const CallView& other) {
  const auto operation = [](const CallView& call) { return call.what.substr(0, call.what.find(' ')); };
  const bool is_same = operation(one) == operation(other) && one.name == other.name;
  return is_same ? VerdictKind::different_arguments : VerdictKind::different_call;
}

std::vector<Verdict> find_verdicts(std::span<const RankView> ranks) {
  std::vector<Verdict> verdicts;
  const auto add = [&](std::optional<Verdict> verdict) {
    if (verdict) verdicts.push_back(std::move(*verdict));
  };
  for (const auto& [key, members] : members_by_group(ranks)) {
    add(verdict_of(members, ranks));
    for (const Member& member : members) {
      for (const TransferView& transfer : member.group->transfers) add(verdict_of(member, transfer, members));
    }
  }
  add(ended_before_init(ranks));
  return root_causes(verdicts, ranks);
}

}  // namespace ddp::launcher
