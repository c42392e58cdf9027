// StragglerTable finds out for which ranks the others wait, from the data that the status pages contain anyway. It is
// pure: it turns samples into a table.
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
  std::uint64_t last = 0;                    // number of seen collectives to which this rank came last
  std::chrono::nanoseconds late{0};          // total delay behind the median rank where this rank came last
  std::chrono::nanoseconds waited_for{0};    // time in which others had called a collective and this rank had not
  std::chrono::nanoseconds longest_wait{0};  // longest uninterrupted wait of other ranks for this one

  friend bool operator==(const Straggler&, const Straggler&) = default;
};

struct StragglerReport {
  std::uint64_t collectives = 0;     // number of collectives whose arrivals were seen; a sample if there are many
  std::chrono::nanoseconds time{0};  // total time of the samples
  std::vector<Straggler> ranks;      // the rank that was waited for longest comes first
};

class StragglerTable {
 public:
  // A group counts only if all of its ranks are in `ranks`. `elapsed` is the time since the last sample.
  void add_sample(std::span<const RankView> ranks, std::chrono::nanoseconds elapsed);

  // Has the effect of a sample in which nothing has changed.
  void nothing_new(std::chrono::nanoseconds elapsed) { add_waits(elapsed); }

  StragglerReport report() const;

 private:
  void count_arrivals(std::uint64_t& newest, std::span<const std::pair<const RankView*, std::size_t>> members);
  void add_waits(std::chrono::nanoseconds elapsed);
  void find_waits(const GroupKey& key, std::span<const std::pair<const RankView*, std::size_t>> members);

  std::map<GroupKey, std::uint64_t> newest_;  // number of the newest collective that was counted
  std::map<int, Straggler> ranks_;
  // Holds how long the others have waited so far, for each group and each rank that they wait for.
  std::map<std::pair<GroupKey, int>, std::chrono::nanoseconds> waits_now_;
  std::uint64_t collectives_ = 0;
  std::chrono::nanoseconds time_{0};
};

}  // namespace ddp::launcher
