// HangDetector follows the ranks of an attempt, and reports news about those that make no progress. It turns samples
// and durations into news, and reads no clock: RankBook makes a picture of the ranks, judge() judges it, and
// StallReports decides what is news.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/limits.h"
#include "launcher/run/ranks/rank_book.h"
#include "launcher/run/watchdog/hang_news.h"
#include "launcher/run/watchdog/judge.h"
#include "launcher/start/plan/hang_plan.h"

namespace ddp::launcher {

// Turns judgements into news. It remembers what was reported, so that each thing is reported once.
class StallReports {
 public:
  explicit StallReports(const HangPlan& plan) : plan_(plan) {}

  // Returns news about ranks that were stopped or continued.
  std::vector<HangNews> add_stops(const Picture& picture);
  // Returns news about a stall. Nothing is reported after the news that ends the job.
  std::vector<HangNews> add(const Judgement& judgement, const Picture& picture);
  bool has_ended_job() const { return has_ended_job_; }

  // Returns the verdict on the operation in which this rank waited, or else the first verdict, from the last picture
  // with any. A rank that gives up waiting leaves nothing to sample, so an older picture is used, up to
  // limits::kHangRemembered. Returns std::nullopt if too little is known.
  std::optional<Verdict> stall_of(int rank, JobTime now) const;

 private:
  std::optional<HangNews> goes_on(const Judgement& judgement, const Picture& picture);

  HangPlan plan_;
  std::set<int> stopped_;
  std::optional<Verdict> reported_;
  bool has_warned_ = false;
  int times_over_ = 0;  // how often this stall was reported as being over its limit
  bool has_ended_job_ = false;
  std::vector<Verdict> seen_;  // verdicts of the last picture with any
  JobTime seen_at_{};
};

//   detector.pass(elapsed, now);        // with each sample
//   NextSample look = detector.next();    // how to take it
//   detector.add(ranks, look.depth);    // if it shows anything new
class HangDetector {
 public:
  // `is_part` means that another node sees more ranks and is the first to name a culprit. `longest_interval` limits how
  // much of the time between two samples counts. A suspended node or a stopped launcher has seen nothing meanwhile.
  explicit HangDetector(const HangPlan& plan, bool is_part = false,
                        std::chrono::nanoseconds longest_interval = limits::kHangLongestInterval)
      : plan_(plan), book_(is_part, longest_interval), reports_(plan) {}

  // See RankBook.
  void pass(std::chrono::nanoseconds elapsed, std::uint64_t taken_at) { book_.pass(elapsed, taken_at); }
  NextSample next() const { return next_sample(book_.picture(), plan_); }
  std::vector<HangNews> add(std::vector<RankView> ranks, SampleDepth depth);

  const Picture& picture() const { return book_.picture(); }
  // Returns why there is a verdict or none, as of the last sample that was judged.
  const std::string& explanation() const { return explanation_; }

  // Returns the state of these ranks, which have just been sampled, to answer the user's request.
  HangNews describe(std::vector<RankView> ranks) const;
  // See StallReports.
  std::optional<Verdict> stall_of(int rank) const { return reports_.stall_of(rank, book_.picture().now); }

 private:
  HangPlan plan_;
  RankBook book_;
  StallReports reports_;
  std::string explanation_;
};

}  // namespace ddp::launcher
