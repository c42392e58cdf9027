#include "launcher/supervise/hang_detector.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "base/text.h"

namespace ddp::launcher {
namespace {

// Phases that take as long as they take.
bool is_in_section(const BoardView& board) {
  return board.phase == "evaluation" || board.phase == "checkpoint" || board.phase == "data loading";
}

bool is_difference(VerdictKind kind) {
  return kind == VerdictKind::different_call || kind == VerdictKind::different_arguments;
}

bool is_without_calls(VerdictKind kind) {
  return kind == VerdictKind::silent || kind == VerdictKind::behind;
}

// It shows that it lives, and nothing else.
bool beats(const RankView& rank) {
  return rank.board.is_written && rank.board.steps > 0 && rank.board.groups.empty();
}

const RankView& view_of(std::span<const RankView> ranks, int rank) {
  return *std::find_if(ranks.begin(), ranks.end(), [&](const RankView& view) { return view.rank == rank; });
}

}  // namespace

std::vector<HangNews> HangDetector::look(std::span<const RankView> ranks, Nanoseconds elapsed, std::uint64_t now) {
  std::vector<HangNews> news;
  if (plan_.timeout.count() == 0 || is_over_) return news;
  elapsed = std::min<Nanoseconds>(elapsed, limits::kHangLongestLook);
  const LookDepth depth = this->depth();
  since_evidence_ = depth == LookDepth::boards ? since_evidence_ + elapsed : elapsed;
  if (depth != LookDepth::boards) follow_stops(ranks, news);
  follow(ranks, stopped_.empty() ? elapsed : Nanoseconds(0), depth);
  if (depth == LookDepth::boards || !stopped_.empty()) return news;

  std::optional<Verdict> verdict;
  if (depth == LookDepth::all) verdict = find_verdict(ranks);
  if (depth == LookDepth::all && !verdict) verdict = they_beat_ ? behind(ranks) : silent(ranks);
  const auto add = [&](HangNews::Kind kind, const Verdict& of, Nanoseconds age, const Limit& limit) {
    const bool ends_job = plan_.action == HangAction::kill && (!is_without_calls(of.kind) || plan_.is_users);
    news.push_back({kind, of, age, limit.time, limit.why, ends_job, evidence(ranks), {}, {}});
  };
  if (told_ && !(verdict && verdict->is_of(*told_))) {
    add(HangNews::Kind::goes_on, *told_, Nanoseconds(0), {Nanoseconds(0), ""});
    told_.reset();
    half_told_ = false;
    times_over_ = 0;
  }
  if (!verdict) return news;
  const Limit limit = limit_of(*verdict, ranks, now);
  Nanoseconds age = silence_;
  if (!is_without_calls(verdict->kind)) age = groups_[{verdict->group, verdict->group_size}].age;
  // Who only warns says it again after as long a time.
  if (age >= (times_over_ + 1) * limit.time) {
    ++times_over_;
    add(HangNews::Kind::hung, *verdict, age, limit);
    is_over_ = news.back().ends_job;
    told_ = verdict;
  } else if (!told_ && !others_judge_ && age >= std::max<Nanoseconds>(limit.time / 4, limits::kHangFirstWord)) {
    add(HangNews::Kind::stalled, *verdict, age, limit);
    told_ = verdict;
  } else if (told_ && !half_told_ && plan_.action != HangAction::warn && age >= limit.time / 2) {
    add(HangNews::Kind::half_over, *verdict, age, limit);
    half_told_ = true;
  }
  return news;
}

HangNews HangDetector::describe(std::span<const RankView> ranks) const {
  HangNews news;
  news.kind = HangNews::Kind::asked;
  if (const auto verdict = find_verdict(ranks)) {
    news.verdict = *verdict;
    const auto group = groups_.find({verdict->group, verdict->group_size});
    if (group != groups_.end()) news.age = group->second.age;
  }
  news.ranks = evidence(ranks);
  return news;
}

LookDepth HangDetector::depth() const {
  if (since_evidence_ < limits::kHangEvidence) return LookDepth::boards;
  return longest_wait() >= limits::kHangEvidence ? LookDepth::all : LookDepth::states;
}

// Of a group in which somebody waits, or of all that shows life.
HangDetector::Nanoseconds HangDetector::longest_wait() const {
  Nanoseconds longest = silence_concerns_us_ ? silence_ : Nanoseconds(0);
  for (const auto& [key, clock] : groups_) {
    if (clock.somebody_waits) longest = std::max(longest, clock.age);
  }
  return longest;
}

// What goes on has its clock at 0, and the pause that ended was none that is to be feared.
void HangDetector::follow(std::span<const RankView> ranks, Nanoseconds elapsed, LookDepth depth) {
  bool any_life = false;
  std::map<GroupKey, std::vector<GroupView>> groups;
  for (const RankView& rank : ranks) {
    for (const GroupView& group : rank.board.groups) groups[{group.name, group.size}].push_back(group);
    RankClock& clock = ranks_[rank.rank];
    if (clock.seen == rank.board) {
      clock.age += elapsed;
    } else {
      any_life = true;
      clock = {rank.board, Nanoseconds(0), std::nullopt, Nanoseconds(0)};
    }
    if (clock.before) {
      clock.before_age += elapsed;
    } else if (depth == LookDepth::all && rank.process) {
      clock.before = rank;
    }
  }
  // Programs without the runtime that sleep are none of our business, unless somebody asked.
  silence_concerns_us_ = plan_.is_users || std::any_of(ranks.begin(), ranks.end(),
                                                       [](const RankView& rank) { return rank.board.is_written; });
  they_beat_ =
      std::all_of(ranks.begin(), ranks.end(), [](const RankView& rank) { return rank.has_ended || beats(rank); }) &&
      std::any_of(ranks.begin(), ranks.end(), [](const RankView& rank) { return !rank.has_ended; });
  silence_ = any_life && !they_beat_ ? Nanoseconds(0) : silence_ + elapsed;
  if (they_beat_) silence_ = longest_silence(ranks);
  for (auto& [key, seen] : groups) {
    GroupClock& clock = groups_[key];
    if (clock.seen == seen) {
      clock.age += elapsed;
      continue;
    }
    if (clock.is_warm) longest_pause_ = std::max(longest_pause_, clock.age);
    clock.is_warm = std::all_of(seen.begin(), seen.end(),
                                [](const auto& group) { return group.finished >= limits::kHangWarmCalls; });
    clock.somebody_waits =
        std::any_of(seen.begin(), seen.end(), [](const auto& group) { return group.called > group.finished; });
    clock.seen = std::move(seen);
    clock.age = Nanoseconds(0);
  }
  std::erase_if(groups_, [&](const auto& entry) { return !groups.contains(entry.first); });
}

void HangDetector::follow_stops(std::span<const RankView> ranks, std::vector<HangNews>& news) {
  std::set<int> now_stopped;
  std::map<int, ProcessLook> traced;
  for (const RankView& rank : ranks) {
    if (rank.has_ended || !rank.process || !rank.process->is_stopped()) continue;
    // A tracer (strace) stops it for a moment, again and again; a debugger for long.
    const auto before = traced_.find(rank.rank);
    const bool is_passing = rank.process->state == 't' && (before == traced_.end() || before->second != *rank.process);
    if (!is_passing) now_stopped.insert(rank.rank);
    traced[rank.rank] = *rank.process;
  }
  traced_ = std::move(traced);
  const auto add = [&](HangNews::Kind kind, const std::set<int>& from, const std::set<int>& without) {
    HangNews item;
    item.kind = kind;
    item.verdict.kind = VerdictKind::stopped;
    std::set_difference(from.begin(), from.end(), without.begin(), without.end(),
                        std::back_inserter(item.verdict.culprits));
    if (item.verdict.culprits.empty()) return;
    item.ranks = evidence(ranks);
    news.push_back(std::move(item));
  };
  add(HangNews::Kind::stopped, now_stopped, stopped_);
  add(HangNews::Kind::resumed, stopped_, now_stopped);
  stopped_ = now_stopped;
}

std::optional<double> HangDetector::cpu_share(const RankView& rank) const {
  const auto clock = ranks_.find(rank.rank);
  const bool is_measured = clock != ranks_.end() && clock->second.before && clock->second.before_age.count() > 0;
  if (!is_measured) return std::nullopt;
  static const double ticks_a_second = static_cast<double>(::sysconf(_SC_CLK_TCK));
  const double seconds = std::chrono::duration<double>(clock->second.before_age).count();
  // A child that has ended takes its time with it.
  const std::uint64_t before = clock->second.before->tree_ticks;
  return rank.tree_ticks <= before ? 0 : static_cast<double>(rank.tree_ticks - before) / ticks_a_second / seconds;
}

// It neither computes nor moves data: it waits for something, and nothing has come.
bool HangDetector::is_idle(const RankView& rank) const {
  const auto found = ranks_.find(rank.rank);
  if (found == ranks_.end() || !found->second.before || !rank.process || rank.process->state == 'D') return false;
  const RankClock& clock = found->second;
  const double seconds = std::chrono::duration<double>(clock.before_age).count();
  const std::uint64_t waits = clock.before->process ? rank.process->waits - clock.before->process->waits : 0;
  return seconds > 0 && cpu_share(rank).value_or(0) < limits::kHangBusyShare &&
         static_cast<double>(waits) <= limits::kHangIdleWaits * seconds;
}

std::vector<RankEvidence> HangDetector::evidence(std::span<const RankView> ranks) const {
  std::vector<RankEvidence> result;
  for (const RankView& rank : ranks) result.push_back({rank, cpu_share(rank)});
  return result;
}

// Nobody waits in a collective: a hang only if nobody does anything else either. Work is a sign of life, too: time
// counts from the last window in which there was some.
std::optional<Verdict> HangDetector::silent(std::span<const RankView> ranks) {
  if (!silence_concerns_us_ || silence_ < limits::kHangFirstWord) return std::nullopt;
  bool is_measured = true;
  for (const RankView& rank : ranks) {
    if (rank.has_ended) continue;
    RankClock& clock = ranks_.at(rank.rank);
    if (clock.before_age < limits::kHangWindow) {
      is_measured = false;
    } else if (!is_idle(rank)) {
      silence_ = Nanoseconds(0);
      clock.before = rank;
      clock.before_age = Nanoseconds(0);
    }
  }
  if (silence_.count() == 0) return std::nullopt;
  // Until it is measured again it is what it was.
  const bool was_silent = told_ && is_without_calls(told_->kind);
  return is_measured || was_silent ? std::optional(Verdict{}) : std::nullopt;
}

void HangDetector::nothing_new(Nanoseconds elapsed) {
  if (plan_.timeout.count() == 0 || is_over_) return;
  elapsed = std::min<Nanoseconds>(elapsed, limits::kHangLongestLook);
  since_evidence_ += elapsed;
  if (!stopped_.empty()) return;
  silence_ += elapsed;
  for (auto& [key, clock] : groups_) clock.age += elapsed;
  for (auto& [rank, clock] : ranks_) {
    clock.age += elapsed;
    if (clock.before) clock.before_age += elapsed;
  }
}

void HangDetector::looked_into() {
  for (auto& [rank, clock] : ranks_) {
    clock.before.reset();
    clock.before_age = Nanoseconds(0);
  }
}

// Of the ranks that run: how long the one that has been still for longest has been.
HangDetector::Nanoseconds HangDetector::longest_silence(std::span<const RankView> ranks) const {
  Nanoseconds longest{0};
  for (const RankView& rank : ranks) {
    const auto clock = ranks_.find(rank.rank);
    if (!rank.has_ended && clock != ranks_.end()) longest = std::max(longest, clock->second.age);
  }
  return longest;
}

// Ranks that send heartbeats are held to them, whatever else they do.
std::optional<Verdict> HangDetector::behind(std::span<const RankView> ranks) const {
  if (silence_ < limits::kHangFirstWord) return std::nullopt;
  Verdict verdict;
  verdict.kind = VerdictKind::behind;
  std::uint64_t fewest = ~std::uint64_t{0};
  std::uint64_t most = 0;
  std::vector<int> still;
  std::vector<int> fewest_beats;
  for (const RankView& rank : ranks) {
    if (rank.has_ended) continue;
    // Who was silent a step later than the others does not go on.
    if (ranks_.at(rank.rank).age > silence_ / 2) still.push_back(rank.rank);
    if (rank.board.steps < fewest) fewest_beats.clear();
    fewest = std::min(fewest, rank.board.steps);
    most = std::max(most, rank.board.steps);
    if (rank.board.steps == fewest) fewest_beats.push_back(rank.rank);
  }
  const bool others_go_on = std::any_of(ranks.begin(), ranks.end(), [&](const RankView& rank) {
    return !rank.has_ended && std::find(still.begin(), still.end(), rank.rank) == still.end();
  });
  verdict.culprits = others_go_on ? still : fewest < most ? fewest_beats : find_odd_ranks(ranks);
  for (const RankView& rank : ranks) {
    if (!rank.has_ended && !verdict.blames(rank.rank)) verdict.waiting.push_back(rank.rank);
  }
  if (verdict.culprits.empty()) verdict.kind = VerdictKind::silent;
  return verdict;
}

HangDetector::Limit HangDetector::limit_of(const Verdict& verdict, std::span<const RankView> ranks,
                                           std::uint64_t now) const {
  const auto at_most = [&](Nanoseconds time) { return std::min<Nanoseconds>(time, plan_.timeout); };
  if (is_difference(verdict.kind)) return {at_most(limits::kHangConclusive), "it cannot go on"};
  // What it sent last may be on its way still.
  const auto for_others = others_judge_ ? limits::kHangFirstWord : Nanoseconds(0);
  if (verdict.kind == VerdictKind::ended) return {at_most(limits::kHangFirstWord) + for_others, "it will not come"};
  const auto any_culprit = [&](const auto& condition) {
    return std::any_of(verdict.culprits.begin(), verdict.culprits.end(),
                       [&](int rank) { return condition(view_of(ranks, rank)); });
  };
  Limit limit{plan_.timeout, "--hang-timeout"};
  const auto group = groups_.find({verdict.group, verdict.group_size});
  const bool is_warm = group != groups_.end() && group->second.is_warm;
  // What a GPU computes, and what ranks of other nodes do, may take long and cannot be seen.
  const bool is_elsewhere = verdict.kind == VerdictKind::transport && verdict.is_partial;
  const bool is_unseen = verdict.kind == VerdictKind::gpu_behind || is_elsewhere;
  if ((verdict.kind == VerdictKind::not_called || is_unseen) && !is_warm) {
    limit = {limits::kHangFirstSteps * plan_.timeout,
             std::to_string(limits::kHangFirstSteps) + " times --hang-timeout before the first steps are done"};
  } else if (is_warm && !is_unseen && !is_without_calls(verdict.kind)) {
    const bool may_take_time =
        any_culprit([&](const RankView& rank) { return is_in_section(rank.board) || !is_idle(rank); });
    const auto learnt = std::max<Nanoseconds>(limits::kHangFloor, limits::kHangFactor * longest_pause_);
    if (!may_take_time && learnt < limit.time) {
      limit = {learnt, learnt > limits::kHangFloor
                           ? std::to_string(limits::kHangFactor) + " times the longest pause so far, " +
                                 base::human_duration(longest_pause_)
                           : "the pauses so far were short"};
    }
  }
  limit.time += for_others;
  std::uint64_t until = 0;
  for (const RankView& rank : ranks) until = std::max(until, rank.board.more_time_until);
  if (until > now) {
    constexpr std::uint64_t kMost = std::uint64_t{1} << 60;  // the board may say anything
    const auto more = Nanoseconds(static_cast<std::int64_t>(std::min(until - now, kMost)));
    limit = {std::max(limit.time, longest_wait() + more), "a rank asked for more time"};
  }
  return limit;
}

}  // namespace ddp::launcher
