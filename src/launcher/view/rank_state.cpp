#include "launcher/view/rank_state.h"

#include <algorithm>
#include <array>
#include <map>

namespace ddp::launcher {
namespace {

constexpr std::array<std::string_view, kRankStates> kNames = {"unknown", "computing", "collective", "waiting",
                                                              "phase",   "stopped",   "ended"};

// Holds the numbers of the collectives that the slowest and the fastest rank of a group have called.
struct Calls {
  std::uint64_t least = UINT64_MAX;
  std::uint64_t most = 0;
};

std::map<GroupKey, Calls> calls_of(std::span<const RankView> ranks) {
  std::map<GroupKey, Calls> calls;
  for (const RankView& rank : ranks) {
    for (const GroupView& group : rank.page.groups) {
      if (group.is_left) continue;
      Calls& of_group = calls[key_of(group)];
      of_group.least = std::min(of_group.least, group.called);
      of_group.most = std::max(of_group.most, group.called);
    }
  }
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
  for (const GroupView& group : rank.page.groups) {
    if (group.is_left) continue;
    if (waits_for_transfer(group)) return RankState::waiting;
    // A collective in progress does not keep the program from computing, unless a thread waits for it.
    if (group.called == group.finished || (rank.page.waiting_threads == 0 && !group.is_sampled)) continue;
    if (calls.at(key_of(group)).least < group.called) return RankState::waiting;
    is_in_collective = true;
  }
  if (is_in_collective) return RankState::collective;
  if (rank.page.is_training || (rank.page.phase == "starting" && rank.page.steps > 0)) return RankState::computing;
  return RankState::phase;
}

}  // namespace

std::string_view name_of(RankState state) {
  return kNames.at(static_cast<std::size_t>(state));
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
      return !group.is_left && group.called < calls.at(key_of(group)).most;
    }));
  }
  return result;
}

}  // namespace ddp::launcher
