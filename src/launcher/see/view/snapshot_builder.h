// SnapshotBuilder collects what the watchdog sees of a job, and answers with what the views show of it at a moment. It
// is pure: the caller passes the time, and nothing is read from the system.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "launcher/run/ranks/picture.h"
#include "launcher/run/ranks/rank_records.h"
#include "launcher/run/watchdog/hang_news.h"
#include "launcher/see/view/job_snapshot.h"
#include "launcher/see/view/rank_track.h"
#include "launcher/see/view/step_rate.h"
#include "launcher/see/view/training_curves.h"

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

// The curves of a snapshot have at most this many columns.
inline constexpr std::size_t kSnapshotColumns = 48;

// Contains what stays the same for an attempt.
struct AttemptFacts {
  int attempt = 0;
  int world_size = 0;
  std::vector<NodeRow> nodes;
  std::map<int, std::string> gpus;  // names by rank, as far as the plan of this node knows them
  bool has_all_ranks = true;
  std::optional<std::uint64_t> restored_step;  // of the kept state with which it began
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
  // Takes how the training goes at the time of the last picture.
  void add(const TrainingMoment& moment, std::uint64_t now);
  void add(const HangNews& news, std::uint64_t now);

  // Returns whether the program reports its progress or values.
  bool reports_progress() const { return training_.is_reported || !training_.values.empty(); }

  JobSnapshot snapshot(std::uint64_t now) const;

 private:
  void begin_bucket(std::uint64_t now);
  void add_time(std::chrono::nanoseconds elapsed);
  double bytes_per_second() const;

  JobFacts facts_;
  AttemptFacts attempt_;
  std::uint64_t began_;
  std::uint64_t attempt_began_ = 0;
  std::vector<RankTrack> tracks_;  // by rank
  std::uint64_t bucket_second_ = 0;
  std::array<double, kViewBuckets> bytes_{};    // of collectives, by bucket
  std::array<double, kViewBuckets> seconds_{};  // sampled time, by bucket
  TrainingMoment training_;
  TrainingCurves curves_{kSnapshotColumns};
  StepRate rate_{kViewWindow};
  StepRate rate_of_minute_{std::chrono::minutes(1)};
  int stalls_ = 0;
  std::string stall_;
  std::uint64_t stalled_since_ = 0;
  std::vector<int> culprits_;
};

}  // namespace ddp::launcher
