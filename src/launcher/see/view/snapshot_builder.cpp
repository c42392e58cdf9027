#include "launcher/see/view/snapshot_builder.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "launcher/run/watchdog/verdict_text.h"

namespace ddp::launcher {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
// A stopped launcher has seen nothing meanwhile. A sample counts for at most this time.
constexpr std::chrono::nanoseconds kLongestSample = std::chrono::seconds(1);
// A rate is too uncertain for a prediction before this much time with steps.
constexpr double kLeastSpan = 2;

double seconds_between(std::uint64_t then, std::uint64_t now) {
  return now > then ? static_cast<double>(now - then) / static_cast<double>(kSecond) : 0;
}

}  // namespace

void SnapshotBuilder::begin_attempt(AttemptFacts facts, std::uint64_t now) {
  attempt_ = std::move(facts);
  attempt_began_ = now;
  tracks_.assign(static_cast<std::size_t>(std::max(attempt_.world_size, 0)), RankTrack());
  bytes_ = {};
  seconds_ = {};
  training_ = {};
  curves_ = TrainingCurves(kSnapshotColumns);
  rate_ = StepRate(kViewWindow);
  rate_of_minute_ = StepRate(std::chrono::minutes(1));
  stall_.clear();
  culprits_.clear();
}

void SnapshotBuilder::add(const Picture& picture) {
  begin_bucket(picture.taken_at);
  if (picture.has_news) {
    double& bytes = bytes_[bucket_second_ % kViewBuckets];
    for (std::size_t i = 0; i < picture.ranks.size(); ++i) {
      const auto rank = static_cast<std::size_t>(picture.ranks[i].rank);  // a negative one becomes too large
      if (rank >= tracks_.size()) continue;
      bytes += tracks_[rank].add_view(picture.ranks[i], picture.moments[i], picture.taken_at);
    }
  }
  add_time(picture.elapsed);
}

// Clears the buckets of the seconds that have begun since the last sample.
void SnapshotBuilder::begin_bucket(std::uint64_t now) {
  const std::uint64_t second = now / kSecond;
  if (second <= bucket_second_) return;
  const std::uint64_t first = std::max(bucket_second_ + 1, second >= kViewBuckets ? second - kViewBuckets + 1 : 0);
  for (std::uint64_t each = first; each <= second; ++each) {
    const std::size_t bucket = each % kViewBuckets;
    bytes_[bucket] = 0;
    seconds_[bucket] = 0;
    for (RankTrack& track : tracks_) track.clear_bucket(bucket);
  }
  bucket_second_ = second;
}

void SnapshotBuilder::add_time(std::chrono::nanoseconds elapsed) {
  const double seconds = std::chrono::duration<double>(std::min(elapsed, kLongestSample)).count();
  const std::size_t bucket = bucket_second_ % kViewBuckets;
  seconds_[bucket] += seconds;
  for (RankTrack& track : tracks_) {
    if (track.is_seen()) track.add_time(bucket, static_cast<float>(seconds));
  }
}

void SnapshotBuilder::add(const TrainingMoment& moment, std::uint64_t now) {
  // Another count begins. The time before the first step is that of the start.
  if (moment.is_reported != training_.is_reported || moment.steps == 0) {
    rate_ = StepRate(kViewWindow);
    rate_of_minute_ = StepRate(std::chrono::minutes(1));
  }
  training_ = moment;
  rate_.add(now, moment.steps);
  rate_of_minute_.add(now, moment.steps);
  curves_.add(moment, now - std::min(now, attempt_began_));
}

void SnapshotBuilder::add_records(const RankRecords& records) {
  const auto rank = static_cast<std::size_t>(records.rank);
  if (rank < tracks_.size()) tracks_[rank].add_records(records);
}

void SnapshotBuilder::add(const HangNews& news, std::uint64_t now) {
  using Kind = HangNews::Kind;
  if (news.kind == Kind::goes_on) {
    stall_.clear();
    culprits_.clear();
  } else if (news.kind == Kind::stalled || news.kind == Kind::warned || news.kind == Kind::hung) {
    if (stall_.empty()) ++stalls_;
    stall_ = hang_headline(news.verdict);
    stalled_since_ = now - std::min(now, static_cast<std::uint64_t>(std::max<std::int64_t>(news.age.count(), 0)));
    culprits_ = news.verdict.culprits;
  }
}

double SnapshotBuilder::bytes_per_second() const {
  const double seconds = std::accumulate(seconds_.begin(), seconds_.end(), 0.0);
  return seconds > 0 ? std::accumulate(bytes_.begin(), bytes_.end(), 0.0) / seconds : 0;
}

JobSnapshot SnapshotBuilder::snapshot(std::uint64_t now) const {
  JobSnapshot shot;
  shot.version = facts_.version;
  shot.run_id = facts_.run_id;
  shot.program = facts_.program;
  shot.node = facts_.node;
  shot.launcher_pid = facts_.launcher_pid;
  shot.attempt = attempt_.attempt;
  shot.max_restarts = facts_.max_restarts;
  shot.restored_step = attempt_.restored_step;
  shot.uptime = seconds_between(began_, now);
  shot.attempt_uptime = attempt_began_ == 0 ? 0 : seconds_between(attempt_began_, now);
  shot.world_size = attempt_.world_size;
  shot.nodes = attempt_.nodes;
  const std::uint64_t step = training_.steps;
  const std::uint64_t total = training_.total_steps;
  shot.step = step;
  if (total > 0) shot.total_steps = total;
  shot.steps_per_second = rate_.per_second(now);
  if (stall_.empty() && total > step && rate_of_minute_.span() >= kLeastSpan) {
    const double rate = rate_of_minute_.per_second(now);
    if (rate > 0) shot.eta = static_cast<double>(total - step) / rate;
  }
  shot.values = training_.values;
  shot.curves = curves_.curves();
  shot.bytes_per_second = bytes_per_second();
  shot.stalls = stalls_;
  shot.stall = stall_;
  if (!stall_.empty()) shot.stall_seconds = seconds_between(stalled_since_, now);
  shot.culprits = culprits_;
  shot.has_all_ranks = attempt_.has_all_ranks;
  for (const RankTrack& track : tracks_) {
    if (!track.is_seen()) continue;
    RankRow& row = shot.ranks.emplace_back(track.row(now));
    const auto gpu = attempt_.gpus.find(row.rank);
    if (gpu != attempt_.gpus.end()) row.gpu = gpu->second;
  }
  return shot;
}

}  // namespace ddp::launcher
