// SnapshotBuilder collects what the watchdog sees of a job, and answers with what the views show of it at a moment. It
// is pure: the caller passes the time, and nothing is read from the system.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/run/ranks/picture.h"
#include "launcher/run/ranks/rank_records.h"
#include "launcher/run/ranks/rank_view.h"
#include "launcher/run/ranks/waits.h"
#include "launcher/run/watchdog/hang_news.h"
#include "launcher/see/view/job_snapshot.h"
#include "launcher/see/view/step_rate.h"
#include "launcher/see/view/training_curves.h"
#include "launcher/start/plan/placement.h"

namespace ddp::launcher {

// Shares and rates are those of this time. It consists of buckets of one second.
inline constexpr std::chrono::seconds kViewWindow{10};
inline constexpr std::size_t kViewBuckets = 10;

// Follows one rank: how it has spent the last seconds, its steps, and its last collective.
class RankTrack {
 public:
  bool is_seen() const { return row_.pid != 0; }

  // Takes the view of the rank at `now`. Returns the bytes of the collectives that the rank has finished since the last
  // view. Their number comes from the status page, and their size is the mean size of the recorded collectives of the
  // same group. So the result is right even if only a sample of the collectives is recorded.
  double add_view(const RankView& view, const RankMoment& moment, std::uint64_t now);
  // Adds time in the state of the last view to a bucket.
  void add_time(std::size_t bucket, float seconds);
  void clear_bucket(std::size_t bucket) { buckets_[bucket] = {}; }
  void add_records(const RankRecords& records);

  RankRow row(std::uint64_t now) const;

 private:
  struct Bucket {
    std::array<float, kRankStates> in{};  // seconds in each state
    float waited_for = 0;
  };
  struct Group {
    std::optional<GroupKey> key;  // std::nullopt if no group was seen in this place yet
    std::uint64_t called = 0;
    std::uint64_t finished = 0;
    std::uint64_t called_at = 0;
  };
  // Sums the sizes of recorded collectives of a group. Both numbers are halved now and then, so that newer ones count
  // more.
  struct Sizes {
    std::uint64_t identity = 0;
    double bytes = 0;
    double count = 0;
  };

  double follow(std::size_t index, const RankView& view, std::uint64_t now);
  void name_collective(const RankView& view, std::size_t index);
  Sizes& sizes_of(std::uint64_t identity);

  RankRow row_;  // without the members that depend on the time
  bool is_waited_for_ = false;
  std::uint64_t called_at_ = 0;  // when the last collective was called; 0 if there was none
  std::uint64_t printed_at_ = 0;
  std::uint64_t named_ = 0;    // number of the collective that has its name from the status page
  std::string recorded_;       // the last recorded collective
  std::vector<Group> groups_;  // as on the page
  std::vector<Sizes> sizes_;
  std::array<Bucket, kViewBuckets> buckets_{};
  StepRate rate_{kViewWindow};
};

// The curves of a snapshot have at most this many columns.
inline constexpr std::size_t kSnapshotColumns = 48;

//   SnapshotBuilder builder(job, now);
//   builder.begin_attempt(placement, gpus, has_all_ranks, now);
//   builder.add(picture);
//   builder.snapshot(now);
//
// All times `now` are CLOCK_MONOTONIC in nanoseconds.
class SnapshotBuilder {
 public:
  // `job` contains what stays the same for the whole job.
  SnapshotBuilder(JobSnapshot job, std::uint64_t now) : shown_(std::move(job)), began_(now) {}

  // Forgets the ranks of the attempt before. The number of stalls stays. `gpus` contains names by rank, as far as the
  // plan of this node knows them.
  void begin_attempt(const Placement& placement, std::map<int, std::string> gpus, bool has_all_ranks,
                     std::uint64_t now);
  // See RankSink. A rank outside of the world is ignored.
  void add(const Picture& picture);
  void add_records(const RankRecords& records);
  // Takes how the training goes at the time of the last picture.
  void add(const TrainingMoment& moment, std::uint64_t now);
  void add(const HangNews& news, std::uint64_t now);

  // Returns whether the program reports its progress or values.
  bool reports_progress() const { return is_reported_ || !shown_.values.empty(); }

  JobSnapshot snapshot(std::uint64_t now) const;

 private:
  void begin_bucket(std::uint64_t now);
  void add_time(std::chrono::nanoseconds elapsed);
  double bytes_per_second() const;
  void take(const TrainingMoment& moment);

  JobSnapshot shown_;  // without the members that depend on the time, and without ranks
  std::map<int, std::string> gpus_;
  std::uint64_t began_;
  std::uint64_t attempt_began_ = 0;
  std::vector<RankTrack> tracks_;  // by rank
  std::uint64_t bucket_second_ = 0;
  std::array<double, kViewBuckets> bytes_{};    // of collectives, by bucket
  std::array<double, kViewBuckets> seconds_{};  // sampled time, by bucket
  bool is_reported_ = false;                    // the program itself counts the steps
  TrainingCurves curves_{kSnapshotColumns};
  StepRate rate_{kViewWindow};
  StepRate rate_of_minute_{std::chrono::minutes(1)};
  std::uint64_t stalled_since_ = 0;
};

}  // namespace ddp::launcher
