#include "launcher/watchdog/hang_detector.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <tuple>

#include "launcher/watchdog/root_causes.h"

namespace ddp::launcher {
namespace {

// Returns whether the rank shows heartbeats and nothing else.
bool beats(const RankView& rank) {
  return rank.page.is_written && rank.page.steps > 0 && rank.page.groups.empty();
}

// Returns whether a culprit waits, too, in an operation that the pages do not show. Then any rank that does not wait
// may be the one for which all of them wait.
bool waits_itself(const Verdict& verdict, std::span<const RankView> ranks) {
  return std::ranges::any_of(
      ranks, [&](const RankView& rank) { return verdict.blames(rank.rank) && rank.page.waiting_threads > 0; });
}

}  // namespace

std::string_view name_of(HangNews::Kind kind) {
  constexpr std::array<std::string_view, 7> kNames = {"stalled", "warned", "goes_on", "stopped",
                                                      "resumed", "hung",   "asked"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::vector<HangNews> HangDetector::add_sample(std::span<const RankView> ranks, Nanoseconds elapsed,
                                               std::uint64_t now) {
  std::vector<HangNews> news;
  if (plan_.is_off() || is_over_) return news;
  elapsed = std::min<Nanoseconds>(elapsed, longest_interval_);
  const SampleDepth depth = this->depth();
  since_seen_ += elapsed;
  since_evidence_ = depth == SampleDepth::pages ? since_evidence_ + elapsed : elapsed;
  if (depth != SampleDepth::pages) follow_stops(ranks, news);
  follow(ranks, stopped_.empty() ? elapsed : Nanoseconds(0));
  if (depth == SampleDepth::pages || !stopped_.empty()) return news;

  std::vector<Verdict> verdicts;
  if (depth == SampleDepth::all) verdicts = find_verdicts(ranks);
  if (!verdicts.empty()) {
    seen_ = verdicts;
    since_seen_ = Nanoseconds(0);
  }
  std::optional<Verdict> verdict = most_pressing(verdicts);
  if (depth == SampleDepth::all && !verdict) verdict = they_beat_ ? behind(ranks) : silent(ranks);
  if (verdict) verdicts.push_back(*verdict);
  blame_.add_sample(verdicts);
  const auto add = [&](HangNews::Kind kind, const Verdict& of, Nanoseconds age, const StallJudgement& judgement) {
    const bool ends_job = plan_.action == HangAction::kill && judgement.ends_in;
    news.push_back({kind, of, age, judgement, ends_job, {ranks.begin(), ranks.end()}, {}, {}});
  };
  const auto is_told = [&](const Verdict& one) { return told_ && one.is_of(*told_); };
  if (told_ && !(verdict && is_told(*verdict)) && std::ranges::none_of(verdicts, is_told) &&
      has_gone_on(*told_, ranks)) {
    add(HangNews::Kind::goes_on, *told_, Nanoseconds(0), {});
    told_.reset();
    has_warned_ = false;
    times_over_ = 0;
  }
  const bool is_blocked = verdict && verdict->is_proven_circle();
  const bool is_same = is_blocked && proven_ && verdict->is_of(*proven_) && verdict->culprits == proven_->culprits;
  proven_samples_ = is_same ? proven_samples_ + 1 : is_blocked ? 1 : 0;
  proven_ = is_blocked ? verdict : std::nullopt;
  // RankWatchdog::look_for_differences() reports a difference that is not described, once the nodes have answered.
  if (!verdict || !verdict->is_described()) return news;
  const StallFacts facts = facts_of(*verdict, ranks, now);
  const StallJudgement judgement = judge_stall(facts, plan_);
  // A stall that is only reported is reported again after the same time, then after twice that, and so on.
  const auto until_told_again = ((std::int64_t{1} << std::min(times_over_, 30)) - 1) * judgement.limit;
  if (judgement.ends_in && *judgement.ends_in + until_told_again <= Nanoseconds(0)) {
    ++times_over_;
    add(HangNews::Kind::hung, *verdict, facts.age, judgement);
    is_over_ = news.back().ends_job;
    told_ = verdict;
  } else if (!told_ && !others_judge_ && facts.age >= judgement.first_word) {
    add(HangNews::Kind::stalled, *verdict, facts.age, judgement);
    told_ = verdict;
  } else if (told_ && !has_warned_ && times_over_ == 0 && judgement.is_warning) {
    add(HangNews::Kind::warned, *verdict, facts.age, judgement);
    has_warned_ = true;
  }
  return news;
}

HangNews HangDetector::describe(std::span<const RankView> ranks) const {
  HangNews news;
  news.kind = HangNews::Kind::asked;
  if (const auto verdict = most_pressing(find_verdicts(ranks))) {
    news.verdict = *verdict;
    news.age = age_of(*verdict);
  }
  news.ranks = {ranks.begin(), ranks.end()};
  return news;
}

std::optional<Verdict> HangDetector::stall_of(int rank) const {
  if (seen_.empty() || since_seen_ > limits::kHangRemembered) return std::nullopt;
  const auto found = std::ranges::find_if(
      seen_, [&](const Verdict& verdict) { return std::ranges::find(verdict.waiting, rank) != verdict.waiting.end(); });
  const Verdict& verdict = found == seen_.end() ? seen_.front() : *found;
  return verdict.is_partial || all_wait(verdict.kind) ? std::nullopt : std::optional(verdict);
}

SampleDepth HangDetector::depth() const {
  if (!stopped_.empty() && since_evidence_ >= limits::kHangEvidence) return SampleDepth::all;
  if (since_evidence_ < limits::kHangEvidence) return SampleDepth::pages;
  return longest_wait() >= limits::kHangEvidence ? SampleDepth::all : SampleDepth::states;
}

// Returns whether a rank that is waited for does something, so that it may still make the call.
bool HangDetector::may_be_resolved(const Verdict& verdict) const {
  return std::ranges::any_of(verdict.culprits, [&](int rank) {
    const auto clock = ranks_.find(rank);
    return clock != ranks_.end() && clock->second.still() < limits::kHangActivity;
  });
}

// Prefers a verdict that nothing can resolve, then one that no active rank can resolve, then the oldest one. Among
// equals it prefers the reported one.
std::optional<Verdict> HangDetector::most_pressing(const std::vector<Verdict>& verdicts) const {
  const auto rank_of = [&](const Verdict& verdict) {
    const bool has_ended = verdict.kind == VerdictKind::ended && !verdict.is_doubtful;
    const bool is_certain = has_ended || differs(verdict.kind) || verdict.is_proven_circle();
    return std::tuple(is_certain, !may_be_resolved(verdict), age_of(verdict), told_ && verdict.is_of(*told_));
  };
  const auto found =
      std::ranges::max_element(verdicts, [&](const Verdict& a, const Verdict& b) { return rank_of(a) < rank_of(b); });
  return found == verdicts.end() ? std::nullopt : std::optional(*found);
}

// The age counts from the wait, because programs begin operations long before they wait for them. Calls that differ are
// certain before that. While a send or a receive stalls, other ranks may exchange data in its group.
HangDetector::Nanoseconds HangDetector::age_of(const Verdict& verdict) const {
  if (is_without_calls(verdict.kind)) return silence_;
  Nanoseconds waited{0};
  for (const int rank : verdict.waiting) {
    const auto found = ranks_.find(rank);
    if (found == ranks_.end()) continue;
    const RankClock& clock = found->second;
    waited = std::max(waited, verdict.is_transfer ? std::min(clock.age(), clock.waited()) : clock.waited());
  }
  if (verdict.is_transfer) return waited;
  const auto group = groups_.find(verdict.key());
  if (group == groups_.end()) return waited;  // the rank waits in init(), before the group exists
  return differs(verdict.kind) ? group->second.age : std::min(group->second.age, waited);
}

// Returns how long the awaited ranks are known to have ended. A reader asks each rank at least every other second. If
// the verdict is doubtful, that time is subtracted, so that the pages are newer than the end of the rank.
HangDetector::Nanoseconds HangDetector::ended_for(const Verdict& verdict, std::span<const RankView> ranks) const {
  Nanoseconds least = Nanoseconds::max();
  for (const int rank : verdict.culprits) {
    const auto clock = ranks_.find(rank);
    if (clock != ranks_.end()) least = std::min(least, clock->second.ended_for());
  }
  const Nanoseconds lag =
      verdict.is_doubtful && is_sampled(verdict, ranks) ? Nanoseconds(3 * limits::kTorchLook) : Nanoseconds(0);
  return std::max(least - lag, Nanoseconds(0));
}

// Returns the longest wait of a group or a rank that waits, or the time without a sign of life if that is longer.
HangDetector::Nanoseconds HangDetector::longest_wait() const {
  Nanoseconds longest = silence_concerns_us_ ? std::max(page_silence_, silence_) : Nanoseconds(0);
  for (const auto& [key, clock] : groups_) {
    if (clock.somebody_waits) longest = std::max(longest, clock.age);
  }
  for (const auto& [rank, clock] : ranks_) {
    if (clock.waits()) longest = std::max(longest, clock.age());
  }
  return longest;
}

// Resets the clocks of ranks and groups that made progress. A pause that has ended was harmless: its length is learnt.
void HangDetector::follow(std::span<const RankView> ranks, Nanoseconds elapsed) {
  bool any_life = false;
  std::map<GroupKey, std::vector<GroupView>> groups;
  for (const RankView& rank : ranks) {
    for (const GroupView& group : rank.page.groups) groups[key_of(group)].push_back(group);
    any_life |= ranks_[rank.rank].add_sample(rank, elapsed);
  }
  // Programs without the runtime may sleep for as long as they like, unless the user gave a limit.
  silence_concerns_us_ = plan_.timeout || std::ranges::any_of(ranks, [](const RankView& rank) {
                           return rank.page.is_written || rank.is_torch;
                         });
  they_beat_ = std::ranges::all_of(ranks, [](const RankView& rank) { return rank.has_ended || beats(rank); }) &&
               std::ranges::any_of(ranks, [](const RankView& rank) { return !rank.has_ended; });
  blame_.advance(elapsed);
  page_silence_ = any_life ? Nanoseconds(0) : page_silence_ + elapsed;
  silence_ = they_beat_ ? longest_silence(ranks) : std::min(silence_, page_silence_);
  for (auto& [key, seen] : groups) {
    GroupClock& clock = groups_[key];
    if (clock.seen == seen) {
      clock.age += elapsed;
      continue;
    }
    if (clock.is_warm) longest_pause_ = std::max(longest_pause_, clock.age);
    clock.is_warm =
        std::ranges::all_of(seen, [](const auto& group) { return group.finished >= limits::kHangWarmCalls; });
    clock.somebody_waits = std::ranges::any_of(seen, [](const auto& group) {
      return group.called > group.finished || group.transfers_called > group.transfers_finished;
    });
    clock.age =
        seen.front().is_by_stack ? Nanoseconds(limits::kStackRest) : Nanoseconds(0);  // the thread rested this long
    clock.seen = std::move(seen);
  }
  std::erase_if(groups_, [&](const auto& entry) { return !groups.contains(entry.first); });
}

void HangDetector::follow_stops(std::span<const RankView> ranks, std::vector<HangNews>& news) {
  std::set<int> now_stopped;
  std::map<int, ProcessSample> traced;
  for (const RankView& rank : ranks) {
    if (rank.has_ended || !rank.process || !rank.process->is_stopped()) continue;
    // A tracer such as strace stops the process only for moments. A debugger stops it for long.
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
    item.ranks = {ranks.begin(), ranks.end()};
    news.push_back(std::move(item));
  };
  add(HangNews::Kind::stopped, now_stopped, stopped_);
  add(HangNews::Kind::resumed, stopped_, now_stopped);
  stopped_ = now_stopped;
}

void HangDetector::nothing_new(Nanoseconds elapsed) {
  if (plan_.is_off() || is_over_) return;
  elapsed = std::min<Nanoseconds>(elapsed, longest_interval_);
  since_evidence_ += elapsed;
  since_seen_ += elapsed;
  if (!stopped_.empty()) return;
  blame_.advance(elapsed);
  page_silence_ += elapsed;
  if (they_beat_) silence_ += elapsed;
  for (auto& [key, clock] : groups_) clock.age += elapsed;
  for (auto& [rank, clock] : ranks_) clock.advance(elapsed);
}

StallFacts HangDetector::facts_of(const Verdict& verdict, std::span<const RankView> ranks, std::uint64_t now) const {
  StallFacts facts;
  facts.kind = verdict.kind;
  const bool is_waited_for = !is_without_calls(verdict.kind) && !all_wait(verdict.kind);
  const bool may_be_others = verdict.kind == VerdictKind::not_called && waits_itself(verdict, ranks);
  facts.is_partial = verdict.is_partial || (may_be_others && others_judge_);
  facts.is_by_stack = verdict.is_by_stack;
  facts.is_doubtful = verdict.is_doubtful;
  facts.is_proven = proven_samples_ >= limits::kHangProof;
  facts.others_judge = others_judge_;
  facts.longest_pause = longest_pause_;
  const auto group = groups_.find(verdict.key());
  facts.is_warm = group != groups_.end() && group->second.is_warm;
  // What stacks show is no group, and belongs to the job.
  if (facts.is_by_stack) {
    facts.is_warm = std::ranges::any_of(groups_, [](const auto& entry) { return entry.second.is_warm; });
  }
  facts.age = age_of(verdict);
  facts.blamed_for = blame_.blamed_for(verdict);
  if (verdict.kind == VerdictKind::ended) facts.age = std::min(facts.age, ended_for(verdict, ranks));
  // A transfer is under way from when the later side called it.
  if (all_wait(verdict.kind) && verdict.called_at != 0 && verdict.called_at < now) {
    facts.age = std::min(facts.age, Nanoseconds(static_cast<std::int64_t>(now - verdict.called_at)));
  }
  if (!is_waited_for) facts.progress_age = facts.age;
  std::vector<Nanoseconds> ages;
  for (const int rank : is_waited_for ? verdict.culprits : std::vector<int>()) {
    const auto clock = ranks_.find(rank);
    if (clock == ranks_.end()) continue;
    ages.push_back(std::min(clock->second.progress_age(verdict), clock->second.settled()));
  }
  // Any of several late ranks may be stuck. A circle is closed only when its last rank has stopped.
  const bool is_circle = verdict.kind == VerdictKind::each_other;
  if (!ages.empty()) facts.progress_age = is_circle ? std::ranges::min(ages) : std::ranges::max(ages);
  for (const RankView& rank : ranks) {
    if (!may_be_others) continue;
    const RankClock& clock = ranks_.at(rank.rank);
    facts.progress_age = std::min(facts.progress_age, clock.settled());
    if (!rank.has_ended) facts.progress_age = std::min(facts.progress_age, clock.age());
  }
  facts.is_open =
      verdict.kind == VerdictKind::not_called && !verdict.is_by_stack && verdict.culprits.size() > 1 &&
      std::ranges::any_of(ranks, [&](const RankView& rank) { return rank.is_unread && verdict.blames(rank.rank); });
  facts.unawaited = facts.age - awaited_for(verdict, facts.age);
  if (facts.is_by_stack) facts.progress_age = std::min(facts.progress_age, facts.age);
  // Ranks may rest for as long as they like until others wait for them.
  if (const auto still = still_for(verdict, ranks)) facts.still_for = std::min(*still, facts.age);
  std::uint64_t until = 0;
  for (const RankView& rank : ranks) {
    if (!is_waited_for || verdict.blames(rank.rank)) until = std::max(until, rank.page.more_time_until);
  }
  constexpr std::uint64_t kMost = std::uint64_t{1} << 60;  // the page may contain any number
  if (until > now) facts.more_time = Nanoseconds(static_cast<std::int64_t>(std::min(until - now, kMost)));
  return facts;
}

// Returns how long a rank has been known to wait. PyTorch's recorder shows a call from its beginning, and not whether a
// thread waits for it. Returns 0 if all ranks do something else.
HangDetector::Nanoseconds HangDetector::awaited_for(const Verdict& verdict, Nanoseconds age) const {
  if (verdict.is_by_stack || verdict.waiting.empty()) return age;
  Nanoseconds longest{0};
  for (const int rank : verdict.waiting) {
    const auto clock = ranks_.find(rank);
    longest = std::max(longest, clock == ranks_.end() ? age : clock->second.here());
  }
  return std::min(age, longest);
}

// Returns how long the awaited ranks showed no sign of life or, if all wait, how long no data moved between them.
// Returns std::nullopt if the kernel does not report it, or if a GPU without readable counters moves the data.
std::optional<HangDetector::Nanoseconds> HangDetector::still_for(const Verdict& verdict,
                                                                 std::span<const RankView> ranks) const {
  std::vector<int> concerned = verdict.culprits;
  // Ranks wait for others to come. Any rank that does not wait may be the awaited one.
  const bool wait_for_some = verdict.kind == VerdictKind::silent && !verdict.waiting.empty();
  if (wait_for_some) concerned = free_ranks(ranks);
  const bool waits_for_data = all_wait(verdict.kind) || (wait_for_some && concerned.empty());
  if (waits_for_data) concerned = verdict.waiting;
  Nanoseconds still = Nanoseconds::max();
  if (verdict.kind == VerdictKind::not_called && waits_itself(verdict, ranks)) {
    for (const RankView& rank : ranks) {
      // A rank that has just ended did something until then.
      still = std::min(still, ranks_.at(rank.rank).settled());
      if (rank.has_ended) continue;
      if (!only_waits(rank) && !verdict.blames(rank.rank)) concerned.push_back(rank.rank);
    }
  }
  for (const int number : concerned) {
    const auto rank = std::ranges::find_if(ranks, [&](const RankView& view) { return view.rank == number; });
    const auto clock = ranks_.find(number);
    if (rank == ranks.end() || clock == ranks_.end() || !rank->activity || !rank->activity->is_complete) {
      return std::nullopt;
    }
    if (waits_for_data && uses_gpu(*rank) && !rank->activity->counts_gpu_data) return std::nullopt;
    // Where all wait, only data counts, and what continuations of the program do.
    if (waits_for_data) still = std::min(still, clock->second.unmoved());
    if (!waits_for_data || rank->page.continuations > 0) still = std::min(still, clock->second.still());
    still = std::min(still, clock->second.settled());
  }
  return concerned.empty() ? std::nullopt : std::optional(still);
}

}  // namespace ddp::launcher
