// HangDetector follows the ranks, and reports news about ranks that make no progress. It turns samples and durations
// into news, and reads no clock. stall_policy.h decides what follows from a stall.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "launcher/limits.h"
#include "launcher/plan/hang_plan.h"
#include "launcher/watchdog/blame_clock.h"
#include "launcher/watchdog/hang_news.h"
#include "launcher/watchdog/rank_clock.h"
#include "launcher/watchdog/stall_policy.h"
#include "launcher/watchdog/verdict.h"

namespace ddp::launcher {

class HangDetector {
 public:
  // `others_judge` means that another node sees more ranks and is the first to name a culprit. `longest_interval`
  // limits how much of the time between two samples counts. A suspended node or a stopped launcher has seen nothing
  // meanwhile.
  explicit HangDetector(const HangPlan& plan, bool others_judge = false,
                        std::chrono::nanoseconds longest_interval = limits::kHangLongestInterval)
      : plan_(plan), others_judge_(others_judge), longest_interval_(longest_interval) {}

  // `elapsed` is the time since the last sample. `now` is CLOCK_MONOTONIC in nanoseconds, as on the status pages. The
  // sample should be as deep as depth() returns.
  std::vector<HangNews> add_sample(std::span<const RankView> ranks, std::chrono::nanoseconds elapsed,
                                   std::uint64_t now);

  // Returns the current state of all ranks, to answer the user's request.
  HangNews describe(std::span<const RankView> ranks) const;

  // Returns the verdict on the operation in which this rank waited, or else the first verdict, from the last sample
  // that found any. A rank that gives up waiting leaves nothing to sample, so an older sample is used, up to
  // limits::kHangRemembered. Returns std::nullopt if too little is known.
  std::optional<Verdict> stall_of(int rank) const;

  // Has the effect of a sample of pages in which nothing has changed.
  void nothing_new(std::chrono::nanoseconds elapsed);

  // Returns how deep the next sample should be. Once per second it is deeper than the pages, and it is `all` if a rank
  // seems to wait.
  SampleDepth depth() const;

  // Returns whether the next sample should contain the activity of the processes (RankView::activity).
  bool wants_activity() const {
    return depth() == SampleDepth::all && stopped_.empty() && longest_wait() >= limits::kHangActivity;
  }

 private:
  using Nanoseconds = std::chrono::nanoseconds;
  struct GroupClock {
    std::vector<GroupView> seen;
    Nanoseconds age{0};
    bool is_warm = false;
    bool somebody_waits = false;
  };
  void follow(std::span<const RankView> ranks, Nanoseconds elapsed);
  std::optional<Verdict> most_pressing(const std::vector<Verdict>& verdicts) const;
  Nanoseconds longest_wait() const;
  Nanoseconds ended_for(const Verdict& verdict, std::span<const RankView> ranks) const;
  Nanoseconds longest_silence(std::span<const RankView> ranks) const;
  void follow_stops(std::span<const RankView> ranks, std::vector<HangNews>& news);
  StallFacts facts_of(const Verdict& verdict, std::span<const RankView> ranks, std::uint64_t now) const;
  Nanoseconds age_of(const Verdict& verdict) const;
  std::optional<Nanoseconds> still_for(const Verdict& verdict, std::span<const RankView> ranks) const;
  bool may_be_resolved(const Verdict& verdict) const;
  Nanoseconds awaited_for(const Verdict& verdict, Nanoseconds age) const;
  std::optional<Verdict> silent(std::span<const RankView> ranks);
  std::optional<Verdict> waits_for_others_to_come(std::span<const RankView> ranks);
  std::optional<Verdict> behind(std::span<const RankView> ranks) const;

  const HangPlan plan_;
  const bool others_judge_;
  const Nanoseconds longest_interval_;
  std::map<GroupKey, GroupClock> groups_;
  std::map<int, RankClock> ranks_;
  BlameClock blame_;
  Nanoseconds longest_pause_{0};
  Nanoseconds page_silence_{0};  // time since a page last changed
  // This is the time without any sign of life. If all ranks send heartbeats, it is the longest time without one.
  Nanoseconds silence_{0};
  bool silence_concerns_us_ = false;
  bool they_beat_ = false;  // all running ranks show heartbeats and no collectives
  Nanoseconds since_evidence_ = limits::kHangEvidence;
  std::vector<Verdict> seen_;  // verdicts of the last sample that found any
  Nanoseconds since_seen_{0};
  std::set<int> stopped_;
  std::map<int, ProcessSample> traced_;  // stopped processes at the last sample of processes, by rank
  std::optional<Verdict> told_;
  bool has_warned_ = false;
  // Counts consecutive samples in which the same ranks wait for each other and cannot stop waiting.
  int proven_samples_ = 0;
  std::optional<Verdict> proven_;
  int times_over_ = 0;  // how often this stall was reported as being over its limit
  bool is_over_ = false;
};

}  // namespace ddp::launcher
