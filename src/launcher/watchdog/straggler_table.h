// StragglerTable: for whom the other ranks wait, from what the pages show anyway. Pure: samples in, a table out.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "launcher/process/rank_view.h"

namespace ddp::launcher {

struct Straggler {
  int rank = 0;
  std::uint64_t last = 0;                    // collectives, of those seen, to which it came last
  std::chrono::nanoseconds late{0};          // how much later than the median of the ranks, over those
  std::chrono::nanoseconds waited_for{0};    // others had called what it had not
  std::chrono::nanoseconds longest_wait{0};  // of these, without a pause

  friend bool operator==(const Straggler&, const Straggler&) = default;
};

struct StragglerReport {
  std::uint64_t collectives = 0;     // whose arrivals were seen: a sample, where there are many a second
  std::chrono::nanoseconds time{0};  // that was looked at
  std::vector<Straggler> ranks;      // whoever was waited for most comes first
};

class StragglerTable {
 public:
  // All ranks of a group must be among them for it to count. `elapsed`: since the last sample.
  void add_sample(std::span<const RankView> ranks, std::chrono::nanoseconds elapsed);

  // As a sample in which nothing has changed.
  void nothing_new(std::chrono::nanoseconds elapsed) { add_waits(elapsed); }

  StragglerReport report() const;

 private:
  void count_arrivals(std::uint64_t& newest, std::span<const std::pair<const RankView*, std::size_t>> members);
  void add_waits(std::chrono::nanoseconds elapsed);
  void find_waits(const GroupKey& key, std::span<const std::pair<const RankView*, std::size_t>> members);

  std::map<GroupKey, std::uint64_t> newest_;  // collective that has been counted
  std::map<int, Straggler> ranks_;
  // Of a group's ranks, those for which others wait, and how long already.
  std::map<std::pair<GroupKey, int>, std::chrono::nanoseconds> waits_now_;
  std::uint64_t collectives_ = 0;
  std::chrono::nanoseconds time_{0};
};

}  // namespace ddp::launcher
