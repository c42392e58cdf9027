#include "launcher/see/view/rank_track.h"

#include <algorithm>

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

}  // namespace ddp::launcher
