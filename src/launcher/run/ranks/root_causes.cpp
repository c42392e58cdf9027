#include "launcher/run/ranks/root_causes.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "launcher/limits.h"
#include "launcher/run/ranks/waits.h"

namespace ddp::launcher {
namespace {

// Represents a graph with a node for each verdict. Edges lead from a verdict to the verdicts in which its culprits
// wait.
class WaitsFor {
 public:
  WaitsFor(const std::vector<Verdict>& verdicts, const std::set<int>& waiting) : verdicts_(verdicts) {
    for (std::size_t i = 0; i < verdicts.size(); ++i) {
      for (const int rank : verdicts[i].waiting) {
        if (waiting.contains(rank)) waits_in_[rank].push_back(i);
      }
    }
  }

  // Returns the verdicts that can be reached from `from`. It includes `from` only if that is part of a circle.
  std::set<std::size_t> reachable(std::size_t from) const {
    std::set<std::size_t> seen;
    std::vector<std::size_t> open = {from};
    while (!open.empty()) {
      const std::size_t next = open.back();
      open.pop_back();
      for (const int rank : verdicts_[next].culprits) {
        const auto waits = waits_in_.find(rank);
        if (waits == waits_in_.end()) continue;
        for (const std::size_t one : waits->second) {
          if (seen.insert(one).second) open.push_back(one);
        }
      }
    }
    return seen;
  }

 private:
  const std::vector<Verdict>& verdicts_;
  std::map<int, std::vector<std::size_t>> waits_in_;
};

// Returns how many threads of the rank wait in the verdict's operation, without a time-out.
int blocked_in(const RankView& rank, const Verdict& verdict) {
  const auto group =
      std::ranges::find_if(rank.page.groups, [&](const GroupView& view) { return key_of(view) == verdict.key(); });
  if (group == rank.page.groups.end()) return 0;
  return verdict.is_transfer ? 1 : group->blocked;
}

// Returns whether all threads of the rank that could do something wait in one of these verdicts. A rank of a circle has
// no continuation: one that has is none of those that wait (has_acting_thread).
bool is_blocked_in(const RankView& rank, const std::vector<Verdict>& verdicts, const std::set<std::size_t>& members) {
  int blocked = 0;
  for (const std::size_t i : members) {
    const std::vector<int>& waiting = verdicts[i].waiting;
    if (std::ranges::find(waiting, rank.rank) != waiting.end()) blocked += blocked_in(rank, verdicts[i]);
  }
  const PageView& page = rank.page;
  return page.blocked_threads > 0 && blocked >= page.blocked_threads && page.calling_threads <= page.blocked_threads &&
         rank.process && rank.process->threads && rank.process->threads->free == 0;
}

// Returns the verdict on the ranks of a circle, which wait in it and are waited for in it.
Verdict circle_of(const std::vector<Verdict>& verdicts, const std::set<std::size_t>& members,
                  std::span<const RankView> ranks) {
  std::set<int> waiting;
  std::set<int> culprits;
  for (const std::size_t i : members) {
    waiting.insert(verdicts[i].waiting.begin(), verdicts[i].waiting.end());
    culprits.insert(verdicts[i].culprits.begin(), verdicts[i].culprits.end());
  }
  Verdict circle = verdicts[*members.begin()];
  circle.kind = VerdictKind::each_other;
  circle.culprits.clear();
  std::set_intersection(waiting.begin(), waiting.end(), culprits.begin(), culprits.end(),
                        std::back_inserter(circle.culprits));
  circle.waiting = circle.culprits;
  for (const std::size_t i : members) circle.is_partial = circle.is_partial || verdicts[i].is_partial;
  circle.is_blocked = std::ranges::all_of(
      ranks, [&](const RankView& rank) { return !circle.blames(rank.rank) || is_blocked_in(rank, verdicts, members); });
  return circle;
}

// Returns whether a continuation runs, or a thread that has called operations and waits for none does something.
// Waiting helper threads of the rank do not excuse it. A thread that waits for another thread of the process, or for
// its end, does nothing.
bool has_acting_thread(const RankView& rank) {
  const PageView& page = rank.page;
  if (page.continuations > 0) return true;
  return page.calling_threads > page.waiting_threads && page.waiting_threads > 0 && rank.process &&
         rank.process->threads && rank.process->threads->acting >= page.waiting_threads;
}

// A stack does not show which ranks its rank waits for. Ranks that exchange data are dropped from the culprits if other
// culprits do not.
void leave_out_those_that_move_data(std::span<const RankView> ranks, Verdict& verdict) {
  const auto moves = [&](int number) {
    const auto rank = std::ranges::find(ranks, number, &RankView::rank);
    return rank != ranks.end() && rank->activity && rank->activity->unmoved_for < limits::kStackRest;
  };
  if (!std::ranges::all_of(verdict.culprits, moves)) std::erase_if(verdict.culprits, moves);
}

// Adds the ranks that `before` blames and `root` does not, because a stack shows that they wait for one of its
// culprits.
void add_those_between(const std::vector<Verdict>& verdicts, const Verdict& before, Verdict& root) {
  for (const int rank : before.culprits) {
    if (root.blames(rank)) continue;
    const auto waits_for_root = [&](const Verdict& one) {
      return one.is_by_stack && !one.call.empty() && std::ranges::find(one.waiting, rank) != one.waiting.end() &&
             std::ranges::any_of(root.culprits, [&](int culprit) { return one.blames(culprit); });
    };
    const auto found = std::ranges::find_if(verdicts, waits_for_root);
    if (found == verdicts.end()) continue;
    root.through.push_back({rank, {}});
    root.through.back().call.what = found->call;
  }
}

// Returns the ranks that wait in one of these operations and do nothing else.
std::set<int> waiting_in(const std::vector<Verdict>& waits, std::span<const RankView> ranks) {
  std::set<int> that_may_wait;
  for (const RankView& rank : ranks) {
    if (may_wait(rank) && !has_acting_thread(rank)) that_may_wait.insert(rank.rank);
  }
  std::set<int> waiting;
  for (const Verdict& wait : waits) {
    std::set_intersection(wait.waiting.begin(), wait.waiting.end(), that_may_wait.begin(), that_may_wait.end(),
                          std::inserter(waiting, waiting.end()));
  }
  return waiting;
}

// Returns the wait with those of its culprits that are a root cause. If these are none, the wait is none either.
Verdict root_of(const Verdict& wait, const std::vector<Verdict>& waits, const std::set<int>& waiting,
                std::span<const RankView> ranks) {
  Verdict root = wait;
  if (root.kind != VerdictKind::not_called) return root;
  const auto waits_with_all = [&](int number) {
    const auto rank = std::ranges::find(ranks, number, &RankView::rank);
    return rank != ranks.end() && rank->page.calling_threads > 0 &&
           rank->page.waiting_threads >= rank->page.calling_threads;
  };
  std::erase_if(root.culprits, [&](int rank) { return waiting.contains(rank); });
  if (!root.is_by_stack && !root.culprits.empty()) add_those_between(waits, wait, root);
  // A rank whose threads all wait may wait in an operation for which its page has no space.
  if (!std::ranges::all_of(root.culprits, waits_with_all)) std::erase_if(root.culprits, waits_with_all);
  if (root.is_by_stack) leave_out_those_that_move_data(ranks, root);
  return root;
}

// Returns a verdict for each circle. A wait that does not lead to a root leads into a circle.
std::vector<Verdict> find_circles(const std::vector<Verdict>& waits, const std::vector<bool>& is_root,
                                  const std::set<int>& waiting, std::span<const RankView> ranks) {
  constexpr std::size_t kMostSearched = 256;  // waits beyond this number belong to the same hang
  const WaitsFor graph(waits, waiting);
  std::vector<Verdict> circles;
  std::set<std::size_t> in_circles;
  for (std::size_t i = 0; i < std::min(waits.size(), kMostSearched); ++i) {
    if (is_root[i] || in_circles.contains(i)) continue;
    const std::set<std::size_t> reached = graph.reachable(i);
    const bool leads_to_root = std::ranges::any_of(reached, [&](std::size_t one) { return is_root[one]; });
    if (leads_to_root || !reached.contains(i)) continue;
    std::set<std::size_t> circle;
    for (const std::size_t one : reached) {
      if (graph.reachable(one).contains(i)) circle.insert(one);
    }
    in_circles.insert(circle.begin(), circle.end());
    circles.push_back(circle_of(waits, circle, ranks));
  }
  return circles;
}

}  // namespace

std::vector<Verdict> find_verdicts(std::span<const RankView> ranks) {
  const std::vector<Verdict> waits = find_waits(ranks);
  const std::set<int> waiting = waiting_in(waits, ranks);
  std::vector<Verdict> found;
  std::vector<bool> is_root;
  for (const Verdict& wait : waits) {
    Verdict root = root_of(wait, waits, waiting, ranks);
    is_root.push_back(root.kind != VerdictKind::not_called || !root.culprits.empty());
    if (is_root.back()) found.push_back(std::move(root));
  }
  std::ranges::move(find_circles(waits, is_root, waiting, ranks), std::back_inserter(found));
  std::stable_partition(found.begin(), found.end(), [](const Verdict& verdict) { return !all_wait(verdict.kind); });
  return found;
}

bool is_sampled(const Verdict& verdict, std::span<const RankView> ranks) {
  return std::ranges::any_of(ranks, [&](const RankView& rank) {
    return std::ranges::any_of(
        rank.page.groups, [&](const GroupView& group) { return group.is_sampled && verdict.is_under_way_in(group); });
  });
}

bool has_gone_on(const Verdict& reported, std::span<const RankView> ranks) {
  if (reported.is_transfer || reported.kind == VerdictKind::each_other) return true;
  return std::ranges::none_of(ranks, [&](const RankView& rank) {
    return !rank.has_ended && std::ranges::any_of(rank.page.groups, [&](const GroupView& group) {
      return !group.is_left && reported.is_under_way_in(group);
    });
  });
}

std::vector<int> free_ranks(std::span<const RankView> ranks) {
  std::vector<int> result;
  for (const RankView& rank : ranks) {
    if (!rank.has_ended && !only_waits(rank)) result.push_back(rank.rank);
  }
  return result;
}

std::optional<bool> waits_for_no_rank(const ProcessSample& process) {
  // These are parts of the names of kernel functions in which a thread waits for something other than another rank.
  constexpr std::array<std::string_view, 6> kOwnDoing = {"nanosleep",  "sys_pause", "sigtimedwait",
                                                         "sigsuspend", "pipe_read", "do_wait"};
  // A thread in one of these waits for messages, or for another thread that waits for them.
  constexpr std::array<std::string_view, 9> kForOthers = {
      "futex", "ep_poll", "do_epoll", "poll_schedule", "do_select", "sk_wait", "tcp_", "unix_stream", "skb_wait"};
  const auto is_in = [&](const auto& names) {
    return std::ranges::any_of(names,
                               [&](std::string_view name) { return process.waits_in.find(name) != std::string::npos; });
  };
  if (process.waits_in.empty() || is_in(kForOthers)) return false;
  return is_in(kOwnDoing) ? std::optional(true) : std::nullopt;
}

std::vector<int> find_odd_ranks(std::span<const RankView> ranks) {
  std::vector<int> odd;
  std::size_t alive = 0;
  for (const RankView& rank : ranks) {
    if (rank.has_ended) continue;
    ++alive;
    const auto is_odd = rank.process ? waits_for_no_rank(*rank.process) : std::nullopt;
    if (!is_odd) return {};
    if (*is_odd) odd.push_back(rank.rank);
  }
  return odd.size() < alive ? odd : std::vector<int>();
}

}  // namespace ddp::launcher
