#include "launcher/see/view/job_history.h"

#include <algorithm>

#include "launcher/see/view/strip_text.h"

namespace ddp::launcher {
namespace {

// Returns how many columns the cells suffice for.
std::size_t columns_for(std::size_t rows, std::size_t most) {
  return std::clamp<std::size_t>(limits::kHistoryCells / std::max<std::size_t>(rows, 1), 16, most);
}

// Writes the text of each rank, which `write` returns, in as many columns as fit into these bytes.
template <typename Write>
void write_texts(ShareColumns& columns, std::size_t most_bytes, std::vector<RankHistory>& ranks, const Write& write) {
  while (true) {
    std::size_t size = 0;
    for (RankHistory& rank : ranks) size += write(rank).size();
    if (size <= most_bytes || columns.count() <= 1) return;
    columns.halve();
  }
}

}  // namespace

void JobHistory::begin_attempt(const Placement& placement, const std::string& node, std::uint64_t now) {
  *this = JobHistory();
  is_open_ = true;
  attempt_ = placement.attempt;
  world_size_ = std::max(placement.world_size, 0);
  node_ = node;
  begin_ = now;
  const std::size_t kept = std::min(static_cast<std::size_t>(world_size_), limits::kHistoryRanks);
  ranks_.resize(kept);
  states_.assign(kept, ShareColumns::kNone);
  waited_for_.assign(kept, ShareColumns::kNone);
  strips_ = ShareColumns(kept, kRankStates, columns_for(kept, limits::kHistoryColumns));
  waits_ = ShareColumns(kept, 1, columns_for(kept, limits::kHistoryWaitColumns));
}

JobHistory::Rank* JobHistory::find(int rank) {
  return rank < 0 || static_cast<std::size_t>(rank) >= ranks_.size() ? nullptr
                                                                     : &ranks_[static_cast<std::size_t>(rank)];
}

void JobHistory::add(const Picture& picture) {
  if (!is_open_) return;
  for (std::size_t i = 0; picture.has_news && i < picture.ranks.size(); ++i) {
    const RankView& view = picture.ranks[i];
    const RankMoment& moment = picture.moments[i];
    Rank* rank = find(view.rank);
    if (rank == nullptr) continue;
    const auto index = static_cast<std::size_t>(view.rank);
    if (!rank->is_seen) rank->node = view.node.empty() ? node_ : view.node;
    rank->is_seen = true;
    rank->steps = std::max(rank->steps, steps_of(view.page));
    states_[index] = static_cast<std::int8_t>(moment.state);
    // A rank that has ended is not slow.
    waited_for_[index] = moment.is_awaited && !view.has_ended ? 0 : ShareColumns::kNone;
  }
  const std::uint64_t end = picture.taken_at - std::min(picture.taken_at, begin_);
  const auto time = static_cast<std::uint64_t>(std::max<std::int64_t>(picture.elapsed.count(), 0));
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (states_[i] >= 0) ranks_[i].time.at(static_cast<std::size_t>(states_[i])) += time;
    if (waited_for_[i] >= 0) ranks_[i].waited_for += time;
  }
  strips_.add(states_, end);
  waits_.add(waited_for_, end);
}

void JobHistory::add_records(const RankRecords& records) {
  if (!is_open_) return;
  collectives_.add(records);
  clock_error_ = std::max(clock_error_, records.clock_error);
  Rank* rank = find(records.rank);
  if (rank == nullptr) return;
  rank->dropped = std::max(rank->dropped, records.dropped);
  for (const Record& record : records.records) {
    if (record.kind == wire::RecordKind::step && record.end >= record.begin) {
      rank->durations.add(record.end - record.begin);
    }
  }
}

void JobHistory::add(const TrainingMoment& moment, std::uint64_t now) {
  if (is_open_) curves_.add(moment, now - std::min(now, begin_));
}

RankHistory JobHistory::history_of(std::size_t index) const {
  const Rank& rank = ranks_[index];
  RankHistory history;
  history.rank = static_cast<int>(index);
  history.node = rank.node;
  std::ranges::transform(rank.time, history.seconds.begin(), history_seconds);
  history.waited_for_seconds = history_seconds(rank.waited_for);
  history.steps = rank.steps;
  history.dropped = rank.dropped;
  if (rank.durations.count() > 0) {
    history.step_median = history_seconds(rank.durations.quantile(0.5));
    history.step_p99 = history_seconds(rank.durations.quantile(0.99));
  }
  return history;
}

AttemptHistory JobHistory::end_attempt(std::uint64_t now) {
  AttemptHistory history;
  if (!is_open_) return history;
  const std::uint64_t end = now - std::min(now, begin_);
  strips_.add(states_, end);
  waits_.add(waited_for_, end);
  strips_.finish();
  waits_.finish();
  history.attempt = attempt_;
  history.seconds = history_seconds(end);
  history.left_out = world_size_ - static_cast<int>(ranks_.size());
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (!ranks_[i].is_seen) continue;
    history.ranks.push_back(history_of(i));
    history.dropped += ranks_[i].dropped;
  }
  write_texts(strips_, limits::kHistoryText, history.ranks, [&](RankHistory& rank) -> const std::string& {
    return rank.strip = strip_text(strips_, static_cast<std::size_t>(rank.rank));
  });
  history.columns = static_cast<int>(strips_.count());
  history.column_seconds = history_seconds(strips_.width());
  write_texts(waits_, limits::kHistoryText / 4, history.ranks, [&](RankHistory& rank) -> const std::string& {
    if (rank.waited_for_seconds > 0) rank.waited_for = tenths_text(waits_, static_cast<std::size_t>(rank.rank));
    return rank.waited_for;
  });
  history.waited_for_columns = static_cast<int>(waits_.count());
  history.waited_for_column_seconds = history_seconds(waits_.width());
  history.curve_seconds = history_seconds(curves_.width());
  history.curves = curves_.curves();
  history.collectives = collectives_.rows();
  history.other_collectives = collectives_.left_out();
  history.clock_error = history_seconds(clock_error_);
  *this = JobHistory();
  return history;
}

}  // namespace ddp::launcher
