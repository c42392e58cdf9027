// SnapshotBuilder collects what the watchdog sees of a job, and answers with what the views show of it at a moment. It
// is pure: the caller passes the time, and nothing is read from the system.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "launcher/ranks/picture.h"
#include "launcher/ranks/rank_records.h"
#include "launcher/view/job_snapshot.h"
#include "launcher/view/rank_track.h"
#include "launcher/view/step_rate.h"
#include "launcher/watchdog/hang_news.h"

namespace ddp::launcher {

// Contains what stays the same for the whole job. The names are those of JobSnapshot.
struct JobFacts {
  std::string version;
  std::string run_id;
  std::string program;
  std::string node;
  int launcher_pid = 0;
  int max_restarts = 0;
};

// Contains what stays the same for an attempt.
struct AttemptFacts {
  int attempt = 0;
  int world_size = 0;
  std::vector<NodeRow> nodes;
  std::map<int, std::string> gpus;  // names by rank, as far as the plan of this node knows them
  bool has_all_ranks = true;
};

//   SnapshotBuilder builder(facts, now);
//   builder.begin_attempt(attempt, now);
//   builder.add(picture);
//   builder.snapshot(now);
//
// All times `now` are CLOCK_MONOTONIC in nanoseconds.
class SnapshotBuilder {
 public:
  SnapshotBuilder(JobFacts facts, std::uint64_t now) : facts_(std::move(facts)), began_(now) {}

  // Forgets the ranks of the attempt before. The number of stalls stays.
  void begin_attempt(AttemptFacts facts, std::uint64_t now);
  // See RankSink. A rank outside of the world is ignored.
  void add(const Picture& picture);
  void add_records(const RankRecords& records);
  // Replaces the values that the program reports on this rank. The snapshot has those of the lowest rank.
  void set_values(int rank, std::vector<ProgressValue> values);
  // `text` is the stall as the console reports it.
  void add_hang_news(HangNews::Kind kind, const std::vector<int>& culprits, const std::string& text);

  // Returns whether the program reports its progress or values.
  bool reports_progress() const { return reporting_rank_ >= 0 || !values_.empty(); }

  JobSnapshot snapshot(std::uint64_t now) const;

 private:
  void begin_bucket(std::uint64_t now);
  void add_time(std::chrono::nanoseconds elapsed);
  void follow_steps(std::span<const RankView> ranks, std::uint64_t now);
  double bytes_per_second() const;

  JobFacts facts_;
  AttemptFacts attempt_;
  std::uint64_t began_;
  std::uint64_t attempt_began_ = 0;
  std::vector<RankTrack> tracks_;  // by rank
  std::uint64_t bucket_second_ = 0;
  std::array<double, kViewBuckets> bytes_{};    // of collectives, by bucket
  std::array<double, kViewBuckets> seconds_{};  // sampled time, by bucket
  int reporting_rank_ = -1;                     // the lowest rank that reports progress
  std::uint64_t step_ = 0;
  std::uint64_t total_steps_ = 0;
  StepRate rate_{kViewWindow};
  StepRate rate_of_minute_{std::chrono::minutes(1)};
  std::map<int, std::vector<ProgressValue>> values_;
  int stalls_ = 0;
  std::string stall_;
  std::vector<int> culprits_;
};

}  // namespace ddp::launcher
