#include "launcher/see/view/snapshot_builder.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "launcher/run/watchdog/verdict_text.h"
#include "wire/call_names.h"

namespace ddp::launcher {
namespace {

// This many collectives cover what a program repeats in each step, and the sample of a whole cycle (wire::is_sampled).
constexpr double kMostSizes = 512;

double seconds_since(std::uint64_t then, std::uint64_t now) {
  constexpr double kSecond = 1e9;
  return now > then ? static_cast<double>(now - then) / kSecond : 0;
}

std::string phase_of(const PageView& page) {
  return std::string(name_of(page.phase)) + (page.phase_name.empty() ? "" : " (" + page.phase_name + ")");
}

constexpr std::uint64_t kSecond = 1'000'000'000;
// A stopped launcher has seen nothing meanwhile. A sample counts for at most this time.
constexpr std::chrono::nanoseconds kLongestSample = std::chrono::seconds(1);
// A rate is too uncertain for a prediction before this much time with steps.
constexpr double kLeastSpan = 2;

double seconds_between(std::uint64_t then, std::uint64_t now) {
  return now > then ? static_cast<double>(now - then) / static_cast<double>(kSecond) : 0;
}

}  // namespace

double RankTrack::add_view(const RankView& view, const RankMoment& moment, std::uint64_t now) {
  if (is_seen() && row_.pid != view.pid) *this = RankTrack();
  row_.rank = view.rank;
  row_.pid = view.pid;
  row_.node = view.node;
  row_.state = moment.state;
  row_.phase = moment.state == RankState::phase ? phase_of(view.page) : "";
  // The first count that a program reports may be that of a checkpoint, so it is no rate.
  if (view.page.steps == 0 && row_.steps == 0) rate_ = StepRate(kViewWindow);
  row_.steps = steps_of(view.page);
  rate_.add(now, row_.steps);
  is_waited_for_ = moment.is_awaited;
  if (view.usage) {
    row_.cpus = view.usage->cpus;
    row_.rss_bytes = view.usage->rss_bytes;
    row_.gpu_use = view.usage->gpu_use;
    row_.gpu_memory_bytes = view.usage->gpu_memory_bytes;
    printed_at_ = view.usage->printed_at;
  }
  double bytes = 0;
  groups_.resize(view.page.groups.size());
  for (std::size_t i = 0; i < groups_.size(); ++i) bytes += follow(i, view, now);
  return bytes;
}

// Follows the group at this place of the page.
double RankTrack::follow(std::size_t index, const RankView& view, std::uint64_t now) {
  const GroupView& seen = view.page.groups[index];
  Group& group = groups_[index];
  const bool is_new = group.key != key_of(seen);
  if (is_new) group = {key_of(seen), 0, seen.finished, 0};
  if (seen.called != group.called) {
    group.called = seen.called;
    // Other nodes do not show when their ranks called. The time when this node learns of the call is used instead.
    group.called_at = is_new ? 0 : now;
    if (index < view.arrivals.size()) {
      for (const Arrival& arrival : view.arrivals[index]) {
        if (arrival.sequence == seen.called && arrival.called_at <= now) group.called_at = arrival.called_at;
      }
    }
    if (group.called_at >= called_at_) {
      called_at_ = group.called_at;
      row_.collective_number = seen.called;
      row_.collective_name = recorded_;
      named_ = 0;
    }
  }
  if (group.called_at == called_at_ && row_.collective_number == seen.called) name_collective(view, index);
  const std::uint64_t finished = seen.finished > group.finished ? seen.finished - group.finished : 0;
  group.finished = seen.finished;
  if (finished == 0) return 0;
  const Sizes& sizes = sizes_of(seen.identity);
  return sizes.count == 0 ? 0 : static_cast<double>(finished) * sizes.bytes / sizes.count;
}

// The page describes the call itself, but only deep samples contain it.
void RankTrack::name_collective(const RankView& view, std::size_t index) {
  if (named_ == row_.collective_number || index >= view.calls.size()) return;
  for (const CallView& call : view.calls[index]) {
    if (call.sequence != row_.collective_number || call.what.empty()) continue;
    row_.collective_name = describe(call);
    named_ = call.sequence;
  }
}

RankTrack::Sizes& RankTrack::sizes_of(std::uint64_t identity) {
  const auto found = std::ranges::find(sizes_, identity, &Sizes::identity);
  if (found != sizes_.end()) return *found;
  // A page has few groups. More identities belong to groups that exist no longer.
  if (sizes_.size() >= wire::kPageGroups) sizes_.erase(sizes_.begin());
  return sizes_.emplace_back(Sizes{identity, 0, 0});
}

void RankTrack::add_time(std::size_t bucket, float seconds) {
  Bucket& to = buckets_[bucket];
  to.in[static_cast<std::size_t>(row_.state)] += seconds;
  if (is_waited_for_) to.waited_for += seconds;
}

void RankTrack::add_records(const RankRecords& records) {
  const Record* last = nullptr;
  for (const Record& record : records.records) {
    if (record.kind != wire::RecordKind::collective) continue;
    const std::uint64_t identity =
        record.group < records.groups.size() ? records.groups[record.group].identity : std::uint64_t{0};
    Sizes& sizes = sizes_of(identity);
    sizes.bytes += static_cast<double>(record.bytes);
    if (++sizes.count >= kMostSizes) {
      sizes.bytes /= 2;
      sizes.count /= 2;
    }
    last = &record;
  }
  if (last == nullptr) return;
  recorded_ = wire::name_of(wire::kOperationNames, last->operation);
  if (last->name > 0 && last->name < records.names.size()) recorded_ += " ('" + records.names[last->name] + "')";
  if (named_ == 0 && called_at_ != 0) row_.collective_name = recorded_;
}

RankRow RankTrack::row(std::uint64_t now) const {
  RankRow row = row_;
  row.steps_per_second = row.state == RankState::ended ? 0 : rate_.per_second(now);
  std::array<double, kRankStates> in{};
  double waited_for = 0;
  double all = 0;
  for (const Bucket& bucket : buckets_) {
    for (std::size_t i = 0; i < in.size(); ++i) {
      in[i] += bucket.in[i];
      all += bucket.in[i];
    }
    waited_for += bucket.waited_for;
  }
  if (all > 0) {
    const auto share = [&](RankState state) { return in[static_cast<std::size_t>(state)] / all; };
    row.computing = share(RankState::computing);
    row.collective = share(RankState::collective);
    row.waiting = share(RankState::waiting);
    row.in_phase = share(RankState::phase);
    row.waited_for = waited_for / all;
  }
  if (called_at_ != 0) row.collective_age = seconds_since(called_at_, now);
  if (printed_at_ != 0) row.output_age = seconds_since(printed_at_, now);
  return row;
}

void SnapshotBuilder::begin_attempt(const Placement& placement, std::map<int, std::string> gpus, bool has_all_ranks,
                                    std::uint64_t now) {
  shown_.attempt = placement.attempt;
  shown_.world_size = placement.world_size;
  shown_.has_all_ranks = has_all_ranks;
  shown_.restored_step.reset();
  if (!placement.restore.ranks.empty()) shown_.restored_step = static_cast<std::uint64_t>(placement.restore.step);
  gpus_ = std::move(gpus);
  attempt_began_ = now;
  tracks_.assign(static_cast<std::size_t>(std::max(placement.world_size, 0)), RankTrack());
  bytes_ = {};
  seconds_ = {};
  take({});
  curves_ = TrainingCurves(kSnapshotColumns);
  rate_ = StepRate(kViewWindow);
  rate_of_minute_ = StepRate(std::chrono::minutes(1));
  shown_.stall.clear();
  shown_.culprits.clear();
}

void SnapshotBuilder::take(const TrainingMoment& moment) {
  is_reported_ = moment.is_reported;
  shown_.step = moment.steps;
  shown_.total_steps = moment.total_steps > 0 ? std::optional(moment.total_steps) : std::nullopt;
  shown_.values = moment.values;
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
  if (moment.is_reported != is_reported_ || moment.steps == 0) {
    rate_ = StepRate(kViewWindow);
    rate_of_minute_ = StepRate(std::chrono::minutes(1));
  }
  take(moment);
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
    shown_.stall.clear();
    shown_.culprits.clear();
  } else if (news.kind == Kind::stalled || news.kind == Kind::warned || news.kind == Kind::hung) {
    if (shown_.stall.empty()) ++shown_.stalls;
    shown_.stall = hang_headline(news.verdict);
    stalled_since_ = now - std::min(now, static_cast<std::uint64_t>(std::max<std::int64_t>(news.age.count(), 0)));
    shown_.culprits = news.verdict.culprits;
  }
}

double SnapshotBuilder::bytes_per_second() const {
  const double seconds = std::accumulate(seconds_.begin(), seconds_.end(), 0.0);
  return seconds > 0 ? std::accumulate(bytes_.begin(), bytes_.end(), 0.0) / seconds : 0;
}

JobSnapshot SnapshotBuilder::snapshot(std::uint64_t now) const {
  JobSnapshot shot = shown_;
  shot.uptime = seconds_between(began_, now);
  shot.attempt_uptime = attempt_began_ == 0 ? 0 : seconds_between(attempt_began_, now);
  shot.steps_per_second = rate_.per_second(now);
  if (shot.stall.empty() && shot.total_steps > shot.step && rate_of_minute_.span() >= kLeastSpan) {
    const double rate = rate_of_minute_.per_second(now);
    if (rate > 0) shot.eta = static_cast<double>(*shot.total_steps - shot.step) / rate;
  }
  shot.curves = curves_.curves();
  shot.bytes_per_second = bytes_per_second();
  if (!shot.stall.empty()) shot.stall_seconds = seconds_between(stalled_since_, now);
  for (const RankTrack& track : tracks_) {
    if (!track.is_seen()) continue;
    RankRow& row = shot.ranks.emplace_back(track.row(now));
    const auto gpu = gpus_.find(row.rank);
    if (gpu != gpus_.end()) row.gpu = gpu->second;
  }
  return shot;
}

}  // namespace ddp::launcher
