#include "launcher/run/ranks/waits.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include "launcher/limits.h"
#include "wire/status_page_layout.h"

namespace ddp::launcher {
namespace {

bool is_stopped(const RankView& rank) {
  return rank.process && rank.process->is_stopped();
}

// Returns the ranks that have no place in the group, because they have left it or have not made it. Returns an empty
// list if they could be on other nodes, or if their numbers are unknown.
std::vector<Member> missing_members(const GroupView& group, const std::vector<Member>& members,
                                    std::span<const RankView> ranks) {
  if (group.name != "world" || group.size != static_cast<int>(ranks.size())) return {};
  // PyTorch makes a group when all its ranks have come. A rank without a place may be in another world.
  if (group.is_sampled && !group.is_by_stack) return {};
  std::vector<Member> missing;
  for (const RankView& rank : ranks) {
    if (std::ranges::find(members, &rank, &Member::rank) == members.end()) missing.push_back({&rank, nullptr, 0});
  }
  return missing;
}

// Returns whether stacks show that a member waits in this operation.
bool one_is_in(std::string_view operation, const std::vector<Member>& members) {
  return std::ranges::any_of(members, [&](const Member& member) {
    const CallView* const call = member.group->is_by_stack ? call_of(member, 1) : nullptr;
    return call != nullptr && call->what == operation;
  });
}

// Returns whether the waiting rank cannot finish this call without the other rank. In an operation with a root, that is
// certain only if one of them is the root.
bool needs(const CallView* call, int waiting, int other) {
  constexpr std::array<std::string_view, 4> kWithRoot = {"broadcast", "reduce ", "gather ", "scatter "};
  if (call == nullptr || call->what.empty()) return false;  // the call is unknown
  if (std::ranges::none_of(kWithRoot, [&](std::string_view name) { return call->what.starts_with(name); })) return true;
  return call->root >= 0 && (call->root == waiting || call->root == other);
}

// Represents a collective of a group in which a member waits.
class WaitedFor {
 public:
  // `first` is the member that waits in the earliest collective.
  WaitedFor(const Member& first, const std::vector<Member>& members, std::span<const RankView> ranks)
      : first_(first), members_(members), sequence_(first.group->finished + 1), call_(call_of(first, sequence_)) {
    const std::vector<Member> missing = missing_members(*first.group, members, ranks);
    is_partial_ = members.size() + missing.size() < static_cast<std::size_t>(first.group->size);
    for (const Member& member : members) {
      if (member.group->finished < sequence_) unfinished_.push_back(member);
    }
    unfinished_.insert(unfinished_.end(), missing.begin(), missing.end());  // these have called nothing
    somebody_is_late_ = std::ranges::any_of(unfinished_, [this](const Member& member) { return is_late(member); });
  }

  std::optional<Verdict> verdict() const {
    Verdict verdict = verdict_on(first_, sequence_);
    verdict.is_partial = is_partial_;
    if (call_ != nullptr) verdict.call = verdict.is_by_stack ? describe_with_place(*call_) : describe(*call_);
    verdict.waiting = ranks_that(
        members_, [this](const Member& m) { return waits(m) && m.group->finished < sequence_ && has_called(m); });
    if (names_awaited(verdict)) return verdict;
    // The GPUs may just compute.
    if (one_is_in(kGpuSynchronization, members_)) return std::nullopt;
    explain_with_all_there(verdict);
    return verdict;
  }

 private:
  // Says what is known about a member that has not finished the collective and has ended.
  enum class End : std::uint8_t {
    calls_no_more,  // it has not called it, and never will
    left_it,        // it called it, and ended in the middle of it
    unknown,        // it may have called and finished more than its page shows
  };

  End end_of(const Member& member) const {
    if (member.group == nullptr) return first_.group->is_sampled ? End::unknown : End::calls_no_more;
    if (member.group->launches && !needs(call_, first_.group->rank, member.group->rank)) return End::unknown;
    if (!member.group->is_sampled) return has_called(member) ? End::left_it : End::calls_no_more;
    // PyTorch marks a call as finished a moment after its thread has gone on.
    return member.group->is_final && !has_called(member) ? End::calls_no_more : End::unknown;
  }
  bool has_called(const Member& member) const { return member.group != nullptr && member.group->called >= sequence_; }
  bool is_late(const Member& member) const { return !member.rank->has_ended && !has_called(member); }
  bool never_calls(const Member& member) const {
    return is_late(member) || (member.rank->has_ended && end_of(member) == End::calls_no_more);
  }
  bool has_certainly_ended(const Member& member) const {
    if (!member.rank->has_ended || end_of(member) == End::unknown) return false;
    // If all others have called, they can only wait for those that never will.
    return !somebody_is_late_ || member.group == nullptr || needs(call_, first_.group->rank, member.group->rank);
  }

  // Finds the ranks for which the others wait. The nearest cause comes first: a rank that has ended or is stopped
  // cannot call. What is not known of ranks that have ended is no reason as long as another rank is late. Returns false
  // if there are none, because all have called.
  bool names_awaited(Verdict& verdict) const {
    const auto awaited = [&](VerdictKind kind, const auto& condition) {
      verdict.kind = kind;
      verdict.culprits = ranks_that(unfinished_, condition);
      return !verdict.culprits.empty();
    };
    if (awaited(VerdictKind::ended, [this](const Member& m) { return has_certainly_ended(m); })) return true;
    if (awaited(VerdictKind::stopped, [](const Member& m) { return is_stopped(*m.rank); })) return true;
    if (somebody_is_late_ && awaited(VerdictKind::not_called, [this](const Member& m) { return never_calls(m); })) {
      return true;
    }
    verdict.is_doubtful = awaited(VerdictKind::ended, [](const Member& m) { return m.rank->has_ended; });
    return verdict.is_doubtful;
  }

  // All members are in the collective, as far as is known.
  void explain_with_all_there(Verdict& verdict) const {
    verdict.kind = VerdictKind::transport;
    const bool they_differ = find_first_difference(members_, verdict);
    if (one_is_in("recv", members_) || one_is_in("send", members_)) {
      verdict.kind = VerdictKind::each_other;
      verdict.culprits = verdict.waiting;
      return;
    }
    if (they_differ) return;
    // Other ranks wait for a call that a rank holds back.
    verdict.culprits = ranks_that(members_, [this](const Member& m) { return m.group->started < sequence_; });
    verdict.is_held = !verdict.culprits.empty() && verdict.culprits.size() < members_.size();
    if (verdict.is_held) {
      verdict.kind = VerdictKind::not_called;
      std::erase_if(verdict.waiting, [&](int rank) { return verdict.blames(rank); });
      return;
    }
    verdict.culprits =
        ranks_that(members_, [this](const Member& m) { return waits(m) && m.group->is_behind_on_gpu(sequence_); });
    if (!verdict.culprits.empty()) verdict.kind = VerdictKind::gpu_behind;
    verdict.finished = ranks_that(members_, [this](const Member& m) { return m.group->finished >= sequence_; });
    // The root of a broadcast may have done its part, and wait in a later operation for the same ranks.
    if (verdict.culprits.empty()) verdict.waiting = ranks_that(members_, waits);
  }

  const Member& first_;
  const std::vector<Member>& members_;
  const std::uint64_t sequence_;
  const CallView* const call_;
  std::vector<Member> unfinished_;  // members that have not finished it
  bool is_partial_ = false;
  bool somebody_is_late_ = false;
};

// Returns the earliest collective of the group in which a member waits, or std::nullopt if none waits.
std::optional<Verdict> wait_in_collective(const std::vector<Member>& members, std::span<const RankView> ranks) {
  const auto first = std::ranges::min_element(
      members, {}, [](const Member& member) { return std::pair(!waits(member), member.group->finished); });
  return waits(*first) ? WaitedFor(*first, members, ranks).verdict() : std::nullopt;
}

// Represents the other side of a send or a receive.
struct OtherSide {
  const Member* member = nullptr;  // null if nothing is known of it
  const TransferView* transfer = nullptr;
  bool shows_all = false;  // its page would show the transfer if it had called it
};

OtherSide other_side_of(const Member& member, const TransferView& transfer, const std::vector<Member>& members) {
  OtherSide other;
  const auto peer = std::ranges::find_if(members, [&](const Member& one) { return one.group->rank == transfer.peer; });
  if (peer == members.end()) return other;
  other.member = &*peer;
  other.shows_all = peer->group->transfers_called <= peer->group->transfers.size();
  for (const TransferView& their : peer->group->transfers) {
    if (their.is_send == transfer.is_send || their.peer != member.group->rank) continue;
    if (their.number == transfer.number) other.transfer = &their;
    // The entry of a transfer that is done is used for a later one, the oldest first.
    if (their.is_done && their.number + 1 == transfer.number) other.shows_all = true;
  }
  return other;
}

// Returns the verdict on a send or a receive for which a thread waits, or std::nullopt if none does. Its other side has
// not called it, has called it without finishing, or cannot call it any more.
std::optional<Verdict> wait_in_transfer(const Member& member, const TransferView& transfer,
                                        const std::vector<Member>& members) {
  if (member.rank->has_ended || member.group->is_left || transfer.is_done || !transfer.is_waited_for) {
    return std::nullopt;
  }
  const OtherSide other = other_side_of(member, transfer, members);
  Verdict verdict = verdict_on(member, transfer.number);
  verdict.is_transfer = true;
  verdict.waiting = {member.rank->rank};
  verdict.is_partial = other.member == nullptr;
  verdict.call = (transfer.is_send ? "recv " + transfer.what + " from rank " : "send " + transfer.what + " to rank ") +
                 std::to_string(member.rank->rank);
  verdict.kind = VerdictKind::transport;
  if (other.member == nullptr) return verdict;
  const RankView& peer = *other.member->rank;
  if (other.transfer != nullptr) {
    verdict.called_at = std::max(transfer.called_at, other.transfer->called_at);
    if (other.transfer->is_done) return verdict;  // the data may still be on its way
    if (other.transfer->what != transfer.what && !peer.has_ended) {
      verdict.kind = VerdictKind::different_arguments;
      verdict.culprits = {member.rank->rank, peer.rank};
      std::ranges::sort(verdict.culprits);
      return verdict;
    }
  }
  if (peer.has_ended) {
    verdict.kind = VerdictKind::ended;
    verdict.is_doubtful = other.transfer == nullptr && !other.shows_all;
  } else if (is_stopped(peer)) {
    verdict.kind = VerdictKind::stopped;
  } else if (other.transfer == nullptr && other.shows_all) {
    verdict.kind = VerdictKind::not_called;
  }
  if (verdict.kind != VerdictKind::transport) verdict.culprits = {peer.rank};
  return verdict;
}

// Returns a verdict if ranks wait in init() for all ranks of the job, and some ended before they called it as often.
std::optional<Verdict> wait_in_init(std::span<const RankView> ranks) {
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

// Compares the calls of the ranks of a group. Ranks of another node were seen a little earlier than those of this node.
// A rank waits for another one only if it had called before the other one was seen without the call.
class Calls {
 public:
  // `called_at` is 0 if it is not known when the rank made its latest call.
  void add(std::uint64_t called, std::uint64_t called_at, std::uint64_t seen_at) {
    by_seen_.push_back({seen_at == 0 ? UINT64_MAX : seen_at, called});
    by_called_.push_back({called_at, called});
  }

  void prepare() {
    std::ranges::sort(by_seen_, {}, &Point::time);
    std::ranges::sort(by_called_, {}, &Point::time);
    // Each point gets the least number of the points from it on, or the greatest one up to it.
    for (std::size_t i = by_seen_.size() - 1; i > 0; --i) {
      by_seen_[i - 1].called = std::min(by_seen_[i - 1].called, by_seen_[i].called);
    }
    for (std::size_t i = 1; i < by_called_.size(); ++i) {
      by_called_[i].called = std::max(by_called_[i].called, by_called_[i - 1].called);
    }
  }

  // Returns the least number of calls of the ranks that were seen after this time.
  std::uint64_t least_after(std::uint64_t time) const {
    const auto first = std::ranges::upper_bound(by_seen_, time, {}, &Point::time);
    return first == by_seen_.end() ? UINT64_MAX : first->called;
  }
  // Returns the greatest number of calls of the ranks that had made it before this time.
  std::uint64_t most_before(std::uint64_t time) const {
    const auto end = std::ranges::lower_bound(by_called_, time == 0 ? UINT64_MAX : time, {}, &Point::time);
    return end == by_called_.begin() ? 0 : std::prev(end)->called;
  }

 private:
  struct Point {
    std::uint64_t time;  // CLOCK_MONOTONIC, nanoseconds
    std::uint64_t called;
  };

  std::vector<Point> by_seen_;
  std::vector<Point> by_called_;
};

// Returns when the rank made the latest call of a group, or 0 if that is not known.
std::uint64_t time_of_call(const RankView& rank, std::size_t group) {
  if (group >= rank.arrivals.size()) return 0;
  const auto& arrivals = rank.arrivals[group];
  const auto latest = std::ranges::find(arrivals, rank.page.groups[group].called, &Arrival::sequence);
  return latest == arrivals.end() ? 0 : latest->called_at;
}

std::map<GroupKey, Calls> calls_of(std::span<const RankView> ranks) {
  std::map<GroupKey, Calls> calls;
  for (const RankView& rank : ranks) {
    for (std::size_t i = 0; i < rank.page.groups.size(); ++i) {
      const GroupView& group = rank.page.groups[i];
      if (!group.is_left) calls[key_of(group)].add(group.called, time_of_call(rank, i), rank.seen_at);
    }
  }
  for (auto& [key, of_group] : calls) of_group.prepare();
  return calls;
}

// Returns whether the counters of a group show what the rank does now. Older samples do so only during a long wait.
bool shows_now(const RankView& rank, std::size_t index) {
  constexpr std::uint64_t kLong = 3'000'000'000;  // nanoseconds
  const GroupView& group = rank.page.groups[index];
  const std::uint64_t called_at = group.called > group.finished ? time_of_call(rank, index) : 0;
  return group.is_live || group.is_by_stack || (called_at != 0 && called_at + kLong < rank.seen_at);
}

bool waits_for_transfer(const GroupView& group) {
  return std::ranges::any_of(group.transfers, [](const TransferView& transfer) { return transfer.is_waited_for; });
}

RankState state_of(const RankView& rank, const std::map<GroupKey, Calls>& calls) {
  if (rank.has_ended) return RankState::ended;
  if (is_stopped(rank)) return RankState::stopped;
  if (!rank.page.is_written) return RankState::unknown;
  bool is_in_collective = false;
  bool is_known = true;
  for (std::size_t i = 0; i < rank.page.groups.size(); ++i) {
    const GroupView& group = rank.page.groups[i];
    const bool shows = group.is_left || shows_now(rank, i);
    is_known = is_known && shows;
    if (!shows || group.is_left) continue;
    if (waits_for_transfer(group)) return RankState::waiting;
    // A collective in progress does not keep the program from computing, unless a thread waits for it.
    if (group.called == group.finished || (rank.page.waiting_threads == 0 && !group.is_sampled)) continue;
    if (calls.at(key_of(group)).least_after(time_of_call(rank, i)) < group.called) return RankState::waiting;
    is_in_collective = true;
  }
  if (is_in_collective) return RankState::collective;
  if (!is_known) return RankState::unknown;
  // A program that names no phase stays in the first one, and its steps show that it computes.
  const RankPhase phase = rank.page.phase;
  if (is_training(phase) || (phase == RankPhase::starting && steps_of(rank.page) > 0)) return RankState::computing;
  return RankState::phase;
}

bool is_awaited(const RankView& rank, const std::map<GroupKey, Calls>& calls) {
  return std::ranges::any_of(rank.page.groups, [&](const GroupView& group) {
    return !group.is_left && group.is_live && group.called < calls.at(key_of(group)).most_before(rank.seen_at);
  });
}

}  // namespace

bool uses_gpu(const RankView& rank) {
  return std::ranges::any_of(rank.page.groups, [](const GroupView& group) { return group.gpu_queued > 0; });
}

bool only_waits(const RankView& rank) {
  const PageView& page = rank.page;
  return page.waiting_threads > 0 && page.waiting_threads >= page.calling_threads && page.continuations == 0;
}

bool may_wait(const RankView& rank) {
  const PageView& page = rank.page;
  const auto kept_asking = static_cast<std::uint64_t>(std::chrono::nanoseconds(limits::kPollingPause).count());
  const bool polls = page.polled_at != 0 && page.polled_at + kept_asking >= rank.seen_at;
  return page.waiting_threads > 0 || polls || uses_gpu(rank) || page.calling_threads == 0;
}

bool waits(const Member& member) {
  const GroupView& group = *member.group;
  // A rank that has not begun an operation holds it up itself, by a batch or a continuation. It waits for no other rank
  // in it, unless a thread of it is known to wait.
  const bool has_begun = group.started > group.finished;
  if (!has_begun && (member.rank->page.continuations > 0 || group.blocked == 0)) return false;
  return may_wait(*member.rank) && !member.rank->has_ended && !group.is_left && group.called > group.finished;
}

std::vector<Verdict> find_waits(std::span<const RankView> ranks) {
  std::vector<Verdict> found;
  const auto add = [&](std::optional<Verdict> verdict) {
    if (verdict) found.push_back(std::move(*verdict));
  };
  for (const auto& [key, members] : members_by_group(ranks)) {
    add(wait_in_collective(members, ranks));
    for (const Member& member : members) {
      for (const TransferView& transfer : member.group->transfers) add(wait_in_transfer(member, transfer, members));
    }
  }
  add(wait_in_init(ranks));
  return found;
}

std::vector<RankMoment> moments_of(std::span<const RankView> ranks) {
  const auto calls = calls_of(ranks);
  std::vector<RankMoment> moments;
  moments.reserve(ranks.size());
  for (const RankView& rank : ranks) moments.push_back({state_of(rank, calls), is_awaited(rank, calls)});
  return moments;
}

}  // namespace ddp::launcher
