// JobHistory follows an attempt of a job, for the report: what each rank did over time, for which ranks others waited,
// how long steps and collectives took. It is pure, and its memory is bounded, whatever the length of the job is.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "launcher/run/ranks/picture.h"
#include "launcher/run/ranks/rank_records.h"
#include "launcher/see/view/collective_table.h"
#include "launcher/see/view/history_data.h"
#include "launcher/see/view/history_limits.h"
#include "launcher/see/view/quantile_sketch.h"
#include "launcher/see/view/share_columns.h"
#include "launcher/see/view/training_curves.h"
#include "launcher/start/plan/placement.h"

namespace ddp::launcher {

//   JobHistory history;
//   history.begin_attempt(placement, node_name, now);
//   history.add(picture);  // again and again
//   const AttemptHistory result = history.end_attempt(now);
class JobHistory {
 public:
  // `node` is the name of this node in the job. `now` is CLOCK_MONOTONIC in nanoseconds, here and below.
  void begin_attempt(const Placement& placement, const std::string& node, std::uint64_t now);

  // These functions do nothing outside of an attempt. The ranks were in their states since the last call.
  void add(const Picture& picture);
  void add_records(const RankRecords& records);
  void add(const TrainingMoment& moment, std::uint64_t now);

  // Returns the history of the attempt, whose texts fit into limits::kHistoryText. Returns no ranks if none was seen.
  AttemptHistory end_attempt(std::uint64_t now);

 private:
  struct Rank {
    bool is_seen = false;
    std::string node;
    std::array<std::uint64_t, kRankStates> time{};  // nanoseconds
    std::uint64_t waited_for = 0;                   // nanoseconds
    std::uint64_t steps = 0;
    std::uint64_t dropped = 0;
    QuantileSketch durations;  // of its steps
  };

  // Returns null if the rank is not kept.
  Rank* find(int rank);
  RankHistory history_of(std::size_t rank) const;

  bool is_open_ = false;
  int attempt_ = 0;
  int world_size_ = 0;
  std::string node_;
  std::uint64_t begin_ = 0;
  std::vector<Rank> ranks_;
  // By rank: its RankState, and 0 if others wait for it. Both are -1 if that is not known.
  std::vector<std::int8_t> states_;
  std::vector<std::int8_t> waited_for_;
  ShareColumns strips_;
  ShareColumns waits_;
  TrainingCurves curves_{limits::kHistoryWaitColumns};
  CollectiveTable collectives_;
  std::uint64_t clock_error_ = 0;  // nanoseconds
};

}  // namespace ddp::launcher
