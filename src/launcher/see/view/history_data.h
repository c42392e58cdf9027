// AttemptHistory describes what the ranks of an attempt did over time. It is a value: docs/reference/event-log.md,
// event `history`.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/run/ranks/rank_state.h"
#include "launcher/see/view/curve.h"

namespace ddp::launcher {

inline double history_seconds(std::uint64_t nanoseconds) {
  return static_cast<double>(nanoseconds) / 1e9;
}

// Times are in seconds.
struct RankHistory {
  int rank = 0;
  std::string node;
  std::string strip;                          // see strip_text.h
  std::string waited_for;                     // tenths of time, see strip_text.h; empty if it was never waited for
  std::array<double, kRankStates> seconds{};  // by RankState
  double waited_for_seconds = 0;
  std::uint64_t steps = 0;
  std::optional<double> step_median;  // of the recorded steps
  std::optional<double> step_p99;
  std::uint64_t dropped = 0;  // records

  friend bool operator==(const RankHistory&, const RankHistory&) = default;
};

// Describes all recorded calls of one operation with one name in one group.
struct CollectiveHistory {
  std::string operation;  // such as "all_reduce"
  std::string name;       // may be empty
  std::string group;
  int size = 0;             // ranks of the group; 2 for a transfer
  std::uint64_t count = 0;  // recorded collectives or transfers
  std::uint64_t bytes = 0;  // mean size of the data on one rank
  double median = 0;        // from the call on a rank to the end on that rank
  double p99 = 0;
  double longest = 0;
  std::optional<double> gpu_median;       // on the GPU's stream
  std::optional<double> transfer_median;  // from the last rank's call to the last rank's end
  std::optional<double> algorithm_rate;   // bytes per second, as nccl-tests define it
  std::optional<double> bus_rate;
  std::optional<int> last_rank;  // the rank that was most often the last to call
  std::uint64_t last_count = 0;  // how often
  std::uint64_t matched = 0;     // collectives of which the records of all ranks are known

  friend bool operator==(const CollectiveHistory&, const CollectiveHistory&) = default;
};

struct AttemptHistory {
  int attempt = 0;
  double seconds = 0;         // from the beginning of the attempt to its end
  double column_seconds = 0;  // of a strip
  int columns = 0;
  double waited_for_column_seconds = 0;
  int waited_for_columns = 0;
  int left_out = 0;  // ranks that the limits leave out
  std::vector<RankHistory> ranks;
  double curve_seconds = 0;                    // of a column of the curves
  std::vector<Curve> curves;                   // how the training went
  std::vector<CollectiveHistory> collectives;  // that with the longest time first
  std::uint64_t other_collectives = 0;         // records that the limits leave out of `collectives`
  std::uint64_t dropped = 0;                   // records of all ranks
  double clock_error = 0;                      // the most by which times of different nodes may differ

  friend bool operator==(const AttemptHistory&, const AttemptHistory&) = default;
};

}  // namespace ddp::launcher
