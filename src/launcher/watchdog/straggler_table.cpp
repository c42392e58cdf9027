#include "launcher/watchdog/straggler_table.h"

#include <algorithm>
#include <set>

namespace ddp::launcher {
namespace {

using Members = std::vector<std::pair<const RankView*, std::size_t>>;  // a rank, and the group's index on its page

const GroupView& group_of(const std::pair<const RankView*, std::size_t>& member) {
  return member.first->page.groups[member.second];
}

}  // namespace

void StragglerTable::add_sample(std::span<const RankView> ranks, std::chrono::nanoseconds elapsed) {
  std::map<GroupKey, Members> groups;
  for (const RankView& rank : ranks) {
    for (std::size_t i = 0; i < rank.page.groups.size(); ++i) {
      const GroupView& group = rank.page.groups[i];
      if (!group.is_left && !rank.has_ended) groups[key_of(group)].emplace_back(&rank, i);
    }
  }
  // A group is left out if `ranks` does not contain all of its ranks: nothing is known about the missing ones.
  std::erase_if(groups, [](const auto& entry) {
    const int size = group_of(entry.second.front()).size;
    return size < 2 || entry.second.size() != static_cast<std::size_t>(size);
  });
  std::erase_if(newest_, [&](const auto& entry) { return !groups.contains(entry.first); });
  std::erase_if(waits_now_, [&](const auto& entry) { return !groups.contains(entry.first.first); });
  for (const auto& [key, members] : groups) {
    count_arrivals(newest_[key], members);
    find_waits(key, members);
  }
  add_waits(elapsed);
}

void StragglerTable::count_arrivals(std::uint64_t& newest,
                                    std::span<const std::pair<const RankView*, std::size_t>> members) {
  struct One {
    std::uint64_t called_at;
    int rank;
  };
  std::map<std::uint64_t, std::vector<One>> by_sequence;
  for (const auto& [rank, index] : members) {
    if (index >= rank->arrivals.size()) continue;
    for (const Arrival& arrival : rank->arrivals[index]) {
      if (arrival.sequence > newest) by_sequence[arrival.sequence].push_back({arrival.called_at, rank->rank});
    }
  }
  for (auto& [sequence, arrivals] : by_sequence) {
    if (arrivals.size() != members.size()) continue;
    newest = sequence;
    ++collectives_;
    std::ranges::sort(arrivals, [](const One& a, const One& b) { return a.called_at < b.called_at; });
    const One& median = arrivals[(arrivals.size() - 1) / 2];
    Straggler& last = ranks_[arrivals.back().rank];
    ++last.last;
    last.late += std::chrono::nanoseconds(arrivals.back().called_at - median.called_at);
  }
}

void StragglerTable::find_waits(const GroupKey& key, std::span<const std::pair<const RankView*, std::size_t>> members) {
  std::uint64_t furthest = 0;
  for (const auto& member : members) furthest = std::max(furthest, group_of(member).called);
  for (const auto& member : members) {
    const int rank = member.first->rank;
    ranks_[rank].rank = rank;
    if (group_of(member).called == furthest) {
      waits_now_.erase({key, rank});
    } else {
      waits_now_.try_emplace({key, rank});
    }
  }
}

void StragglerTable::add_waits(std::chrono::nanoseconds elapsed) {
  time_ += elapsed;
  std::set<int> waited_for;  // a rank that several groups wait for counts once
  for (auto& [key, now] : waits_now_) {
    Straggler& straggler = ranks_[key.second];
    now += elapsed;
    straggler.longest_wait = std::max(straggler.longest_wait, now);
    if (waited_for.insert(key.second).second) straggler.waited_for += elapsed;
  }
}

StragglerReport StragglerTable::report() const {
  StragglerReport report{collectives_, time_, {}};
  for (const auto& [rank, straggler] : ranks_) report.ranks.push_back(straggler);
  std::ranges::stable_sort(report.ranks, [](const Straggler& a, const Straggler& b) {
    return std::pair(a.waited_for, a.late) > std::pair(b.waited_for, b.late);
  });
  return report;
}

}  // namespace ddp::launcher
