// StragglerReport says for which ranks the others waited. StragglerTable makes it.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

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

}  // namespace ddp::launcher
