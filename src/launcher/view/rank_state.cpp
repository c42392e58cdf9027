#include "launcher/view/rank_state.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>

namespace ddp::launcher {
namespace {

constexpr std::array<std::string_view, kRankStates> kNames = {"unknown", "computing", "collective", "waiting",
                                                              "phase",   "stopped",   "ended"};

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

bool waits_for_transfer(const GroupView& group) {
  return std::ranges::any_of(group.transfers, [](const TransferView& transfer) { return transfer.is_waited_for; });
}

RankState state_of(const RankView& rank, const std::map<GroupKey, Calls>& calls) {
  if (rank.has_ended) return RankState::ended;
  if (rank.process && rank.process->is_stopped()) return RankState::stopped;
  if (!rank.page.is_written) return RankState::unknown;
  bool is_in_collective = false;
  for (std::size_t i = 0; i < rank.page.groups.size(); ++i) {
    const GroupView& group = rank.page.groups[i];
    if (group.is_left) continue;
    if (waits_for_transfer(group)) return RankState::waiting;
    // A collective in progress does not keep the program from computing, unless a thread waits for it.
    if (group.called == group.finished || (rank.page.waiting_threads == 0 && !group.is_sampled)) continue;
    if (calls.at(key_of(group)).least_after(time_of_call(rank, i)) < group.called) return RankState::waiting;
    is_in_collective = true;
  }
  if (is_in_collective) return RankState::collective;
  // A program that names no phase stays in the first one, and its steps show that it computes.
  if (rank.page.is_training || (rank.page.phase == "starting" && steps_of(rank.page) > 0)) return RankState::computing;
  return RankState::phase;
}

}  // namespace

std::string_view name_of(RankState state) {
  return kNames.at(static_cast<std::size_t>(state));
}

std::uint64_t steps_of(const PageView& page) {
  return page.steps > 0 ? page.steps : page.progress_done;
}

std::vector<RankState> states_of(std::span<const RankView> ranks) {
  const auto calls = calls_of(ranks);
  std::vector<RankState> states;
  states.reserve(ranks.size());
  for (const RankView& rank : ranks) states.push_back(state_of(rank, calls));
  return states;
}

std::vector<bool> waited_for(std::span<const RankView> ranks) {
  const auto calls = calls_of(ranks);
  std::vector<bool> result;
  result.reserve(ranks.size());
  for (const RankView& rank : ranks) {
    result.push_back(std::ranges::any_of(rank.page.groups, [&](const GroupView& group) {
      return !group.is_left && group.called < calls.at(key_of(group)).most_before(rank.seen_at);
    }));
  }
  return result;
}

}  // namespace ddp::launcher
