#include "launcher/run/ranks/straggler_table.h"

#include <algorithm>
#include <utility>

namespace ddp::launcher {

void StragglerTable::add(const Picture& picture) {
  const JobTime before = std::exchange(now_, picture.now);
  if (picture.has_news) {
    // A group is left out if the picture does not contain all of its ranks: nothing is known about the missing ones.
    const auto takes_part = [](const Member& member) { return !member.rank->has_ended && !member.group->is_left; };
    for (const auto& [key, members] : members_by_group(picture.ranks)) {
      const bool is_complete = std::ranges::count_if(members, takes_part) == members.front().group->size;
      if (is_complete && members.size() > 1) count_arrivals(newest_[key], members);
    }
    for (std::size_t i = 0; i < picture.ranks.size(); ++i) {
      const RankView& rank = picture.ranks[i];
      if (picture.moments[i].is_awaited && !rank.has_ended) {
        awaited_since_.try_emplace(rank.rank, before);
      } else {
        awaited_since_.erase(rank.rank);
      }
    }
  }
  for (const auto& [rank, since] : awaited_since_) {
    Straggler& straggler = ranks_[rank];
    straggler.rank = rank;
    straggler.longest_wait = std::max(straggler.longest_wait, now_ - since);
    straggler.waited_for += now_ - before;
  }
}

void StragglerTable::count_arrivals(std::uint64_t& newest, const std::vector<Member>& members) {
  struct One {
    std::uint64_t called_at;
    int rank;
  };
  std::map<std::uint64_t, std::vector<One>> by_sequence;
  for (const Member& member : members) {
    ranks_[member.rank->rank].rank = member.rank->rank;
    if (member.index >= member.rank->arrivals.size()) continue;
    for (const Arrival& arrival : member.rank->arrivals[member.index]) {
      if (arrival.sequence > newest) by_sequence[arrival.sequence].push_back({arrival.called_at, member.rank->rank});
    }
  }
  for (auto& [sequence, arrivals] : by_sequence) {
    if (arrivals.size() != members.size()) continue;
    newest = sequence;
    ++collectives_;
    std::ranges::sort(arrivals, {}, &One::called_at);
    const One& median = arrivals[(arrivals.size() - 1) / 2];
    Straggler& last = ranks_[arrivals.back().rank];
    ++last.last;
    last.late += std::chrono::nanoseconds(arrivals.back().called_at - median.called_at);
  }
}

StragglerReport StragglerTable::report() const {
  StragglerReport report{collectives_, now_.time_since_epoch(), {}};
  for (const auto& [rank, straggler] : ranks_) report.ranks.push_back(straggler);
  std::ranges::stable_sort(report.ranks, [](const Straggler& a, const Straggler& b) {
    return std::pair(a.waited_for, a.late) > std::pair(b.waited_for, b.late);
  });
  return report;
}

}  // namespace ddp::launcher
