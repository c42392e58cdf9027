#include "launcher/run/ranks/record_collector.h"

#include <algorithm>
#include <utility>

#include "launcher/limits.h"

namespace ddp::launcher {
namespace {

using Clock = RecordCollector::Clock;

std::uint64_t monotonic(Clock::time_point time) {
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(time.time_since_epoch()).count());
}

// Converts a time to this node's clock.
void convert(std::uint64_t& time, std::int64_t ahead) {
  time -= static_cast<std::uint64_t>(ahead);
}

}  // namespace

RecordCollector::RecordCollector(RankExchange& exchange, RankProbe& probe, RankSink* sink, const Placement& placement)
    : exchange_(exchange),
      probe_(probe),
      sink_(sink),
      placement_(placement),
      keeps_until_(Clock::now() + limits::kRecordKeep) {
  exchange_.on_records_asked = [this](std::uint64_t asked_at) { asked(asked_at); };
  exchange_.on_records = [this](const Shown& message) { shown(message); };
}

RecordCollector::~RecordCollector() {
  exchange_.on_records_asked = nullptr;
  exchange_.on_records = nullptr;
}

bool RecordCollector::is_wanted_elsewhere(Clock::time_point now) const {
  return exchange_.has_others() && !exchange_.is_coordinator() && now < keeps_until_;
}

void RecordCollector::poll(Clock::time_point now) {
  take(now);
  const bool asks = exchange_.has_others() && exchange_.is_coordinator() && is_wanted_here();
  if (!asks || now < next_request_) return;
  next_request_ = now + limits::kRecordAsk + placement_.node_count * limits::kRecordAskShare;
  exchange_.ask_for_records();
}

void RecordCollector::take(Clock::time_point now) {
  const bool is_sent = is_wanted_elsewhere(now);
  for (const int local_rank : started_) {
    if (!is_sent && !is_wanted_here()) {
      probe_.discard_records(local_rank);
      continue;
    }
    RankRecords records = probe_.take_records(local_rank);
    const bool is_same = std::exchange(lost_[local_rank], records.dropped) == records.dropped;
    if (records.records.empty() && is_same) continue;
    if (is_wanted_here()) sink_->add_records(records);
    if (is_sent) keep(std::move(records));
  }
}

// If there is no space, the oldest records of the rank go.
void RecordCollector::keep(RankRecords records) {
  RankRecords& unsent = unsent_[records.rank];
  append_records(unsent, records);
  unsent_count_ += records.records.size();
  if (unsent_count_ <= limits::kUnsentRecords) return;
  const std::size_t excess = std::min(unsent_count_ - limits::kUnsentRecords, unsent.records.size());
  unsent.records.erase(unsent.records.begin(), unsent.records.begin() + static_cast<std::ptrdiff_t>(excess));
  forgotten_[records.rank] += excess;
  unsent_count_ -= excess;
}

void RecordCollector::asked(std::uint64_t asked_at) {
  const auto now = Clock::now();
  was_asked_ = true;
  keeps_until_ = now + limits::kRecordKeep;
  take(now);
  send({asked_at, monotonic(now), 0, false, {}});
}

void RecordCollector::finish() {
  take(Clock::now());
  const bool sends = was_asked_ && exchange_.has_others() && !exchange_.is_coordinator();
  if (sends) send({0, 0, 0, true, {}});
}

void RecordCollector::send(ShownRecords shown) {
  for (auto& [rank, records] : std::exchange(unsent_, {})) {
    records.dropped += forgotten_[rank];
    shown.ranks.push_back(std::move(records));
  }
  unsent_count_ = 0;
  std::vector<ShownRecords> messages = divide_records(std::move(shown));
  messages.front().answered_at = monotonic(Clock::now());
  for (const ShownRecords& message : messages) exchange_.show_records(show_records(message));
}

void RecordCollector::shown(const Shown& message) {
  ShownRecords shown = read_records(message.text);
  shown.is_last ? void(sending_.erase(message.from)) : void(sending_.insert(message.from));
  ClockOffset& clock = clocks_[message.from];
  if (shown.asked_at != 0) {
    clock.add({shown.asked_at, shown.received_at, shown.answered_at, monotonic(Clock::now())});
  }
  // The clock is known roughly from the node's first message.
  const std::int64_t ahead = clock.is_known() ? clock.ahead() : message.clock_ahead.count();
  const std::uint64_t error =
      clock.is_known() ? clock.error()
                       : static_cast<std::uint64_t>(std::chrono::nanoseconds(limits::kUnknownClockError).count());
  for (RankRecords& rank : shown.ranks) {
    if (rank.rank < 0 || rank.rank >= placement_.world_size) continue;
    rank.node = message.host;
    rank.clock_error = error;
    for (Record& record : rank.records) {
      convert(record.begin, ahead);
      convert(record.end, ahead);
    }
    if (is_wanted_here()) sink_->add_records(rank);
  }
}

}  // namespace ddp::launcher
