// Picture shows the ranks at one moment of the job's time: what each of them does and since when, and who waits for
// whom. RankBook makes it, once per sample. The judgement of hangs and the views of a job read it, and nothing else.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "launcher/run/ranks/job_clock.h"
#include "launcher/run/ranks/rank_times.h"
#include "launcher/run/ranks/rank_view.h"
#include "launcher/run/ranks/verdict.h"
#include "launcher/run/ranks/waits.h"

namespace ddp::launcher {

// Represents an operation in which ranks wait.
struct Wait {
  Verdict verdict;
  JobTime blamed_since{};  // since when all of its culprits have been waited for, in this operation or in others
  int proofs = 0;          // samples in a row that prove that these ranks wait for each other and cannot stop waiting
};

struct GroupTimes {
  JobTime progress_at{};
  bool is_warm = false;         // it has done enough collectives to learn from its pauses
  bool somebody_waits = false;  // for a collective or a transfer
};

struct Picture {
  JobTime now{};
  std::uint64_t taken_at = 0;           // CLOCK_MONOTONIC, nanoseconds
  std::chrono::nanoseconds elapsed{0};  // CLOCK_MONOTONIC: time since the picture before
  bool has_news = false;                // false if nothing but the time differs from the picture before
  SampleDepth depth = SampleDepth::pages;
  std::chrono::nanoseconds since_deep{0};  // time since the last sample that was deeper than the pages
  bool is_part = false;                    // another node sees more ranks
  std::vector<RankView> ranks;
  std::map<int, RankTimes> times;   // by rank
  std::vector<RankMoment> moments;  // in the order of `ranks`
  std::map<GroupKey, GroupTimes> groups;
  JobTime changed_at{};                       // when the page of a rank last changed
  std::chrono::nanoseconds longest_pause{0};  // of a warm group
  std::set<int> stopped;                      // ranks that are stopped by a signal or a debugger
  // The root causes (see find_verdicts()), and since when no rank has waited in a known operation. Both are those of
  // the last sample of depth `all`.
  std::vector<Wait> waits;
  JobTime no_waits_since{};
};

}  // namespace ddp::launcher
