#include "launcher/watchdog/verdict.h"

#include <array>
#include <chrono>
#include <map>
#include <set>
#include <utility>

#include "launcher/limits.h"
#include "launcher/watchdog/group_members.h"
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

// Returns the world ranks that have no place in the group, because they have left it or have not made it. Returns an
// empty list if they could be on other nodes, or if their numbers are unknown.
std::vector<int> missing_ranks(const GroupView& group, const std::vector<Member>& members,
                               std::span<const RankView> ranks) {
  std::vector<int> result;
  if (group.name != "world" || group.size != static_cast<int>(ranks.size())) return result;
  // PyTorch makes a group when all its ranks have come. A rank without a place may be in another world.
  if (group.is_sampled && !group.is_by_stack) return result;
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

// Says what is known about a member, or a missing one, that has not finished an operation and has ended.
enum class End : std::uint8_t {
  calls_no_more,  // it has not called the operation, and never will
  left_it,        // it called the operation, and ended in the middle of it
  unknown,        // it may have called and finished more than its page shows
};

End end_of(const GroupView* group, bool is_sampled, std::uint64_t sequence) {
  if (group == nullptr) return is_sampled ? End::unknown : End::calls_no_more;
  if (!group->is_sampled) return group->called < sequence ? End::calls_no_more : End::left_it;
  // PyTorch marks a call as finished a moment after its thread has gone on.
  return group->is_final && group->called < sequence ? End::calls_no_more : End::unknown;
}

// Returns whether the waiting rank cannot finish this call without the other rank. In an operation with a root, that is
// certain only if one of them is the root.
bool needs(const CallView* call, int waiting, int other) {
  constexpr std::array<std::string_view, 4> kWithRoot = {"broadcast", "reduce ", "gather ", "scatter "};
  if (call == nullptr || call->what.empty()) return false;  // the call is unknown
  if (std::ranges::none_of(kWithRoot, [&](std::string_view name) { return call->what.starts_with(name); })) return true;
  return call->root >= 0 && (call->root == waiting || call->root == other);
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
      if (condition(rank, group)) result.push_back(rank.rank);
    }
    return result;
  };
  const bool is_sampled = first->group->is_sampled;
  const auto has_not_called = [&](const RankView& rank, const GroupView* group) {
    return !rank.has_ended && (group == nullptr || group->called < sequence);
  };
  const std::vector<int> late = culprits_that(has_not_called);
  // If all others have called, they can only wait for those that never will.
  const auto is_needed = [&](const GroupView* group) {
    return late.empty() || group == nullptr || needs(call, first->group->rank, group->rank);
  };
  const auto has_ended = [&](const RankView& rank, const GroupView*) { return rank.has_ended; };
  const auto is_certain = [&](const RankView& rank, const GroupView* group) {
    return rank.has_ended && end_of(group, is_sampled, sequence) != End::unknown && is_needed(group);
  };
  const auto is_stopped = [](const RankView& rank, const GroupView*) {
    return rank.process && rank.process->is_stopped();
  };
  const auto never_calls = [&](const RankView& rank, const GroupView* group) {
    const bool has_left = rank.has_ended && end_of(group, is_sampled, sequence) == End::calls_no_more;
    return has_left || has_not_called(rank, group);
  };
  // The nearest cause comes first: a rank that has ended or is stopped cannot call. What is not known of ranks that
  // have ended is no reason as long as another rank is late.
  const std::array<std::pair<VerdictKind, std::vector<int>>, 4> causes = {{
      {VerdictKind::ended, culprits_that(is_certain)},
      {VerdictKind::stopped, culprits_that(is_stopped)},
      {VerdictKind::not_called, late.empty() ? late : culprits_that(never_calls)},
      {VerdictKind::ended, culprits_that(has_ended)},
  }};
  for (const auto& cause : causes) {
    if (cause.second.empty()) continue;
    verdict.kind = cause.first;
    verdict.culprits = cause.second;
    verdict.is_doubtful = &cause == &causes.back();
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
  // The entry of a transfer that is done is used for a later one, the oldest first.
  const bool is_before_ours = std::ranges::any_of(theirs, [&](const TransferView& their) {
    return their.is_send != transfer.is_send && their.peer == member.group->rank && their.is_done &&
           their.number + 1 == transfer.number;
  });
  const bool all_are_shown = peer->group->transfers_called <= theirs.size() || is_before_ours;
  if (has_called) verdict.called_at = std::max(transfer.called_at, counterpart->called_at);
  // If the other side has done its part, the data may still be on its way.
  const bool has_done_its_part = has_called && counterpart->is_done;
  if (has_called && !has_done_its_part && counterpart->what != transfer.what && !peer->rank->has_ended) {
    verdict.kind = VerdictKind::different_arguments;
    verdict.culprits = {member.rank->rank, peer->rank->rank};
    std::ranges::sort(verdict.culprits);
    return verdict;
  }
  if (has_done_its_part) return verdict;
  if (peer->rank->has_ended) {
    verdict.kind = VerdictKind::ended;
    verdict.is_doubtful = !has_called && !all_are_shown;
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

bool uses_gpu(const RankView& rank) {
  return std::ranges::any_of(rank.page.groups, [](const GroupView& group) { return group.gpu_queued > 0; });
}

bool may_wait(const RankView& rank) {
  const PageView& page = rank.page;
  const auto kept_asking = static_cast<std::uint64_t>(std::chrono::nanoseconds(limits::kPollingPause).count());
  const bool polls = page.polled_at != 0 && page.polled_at + kept_asking >= rank.seen_at;
  return page.waiting_threads > 0 || polls || uses_gpu(rank) || page.calling_threads == 0;
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
