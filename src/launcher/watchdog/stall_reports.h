// StallReports turns judgements into news. It remembers what was reported, so that each thing is reported once.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "launcher/plan/hang_plan.h"
#include "launcher/watchdog/hang_news.h"
#include "launcher/watchdog/judge.h"

namespace ddp::launcher {

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
  std::optional<Verdict> told_;
  bool has_warned_ = false;
  int times_over_ = 0;  // how often this stall was reported as being over its limit
  bool has_ended_job_ = false;
  std::vector<Verdict> seen_;  // verdicts of the last picture with any
  JobTime seen_at_{};
};

}  // namespace ddp::launcher
