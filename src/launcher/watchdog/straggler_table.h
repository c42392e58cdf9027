// StragglerTable finds out for which ranks the others wait, from the data that the status pages contain anyway. It is
// pure: it turns samples into a table.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <span>
#include <utility>

#include "launcher/process/rank_view.h"
#include "launcher/watchdog/straggler_report.h"

namespace ddp::launcher {

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
