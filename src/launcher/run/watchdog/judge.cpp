#include "launcher/run/watchdog/judge.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "launcher/limits.h"
#include "launcher/run/ranks/root_causes.h"

namespace ddp::launcher {
namespace {

using Nanoseconds = std::chrono::nanoseconds;

// --- Pictures in which no rank waits in a known operation.

struct Silence {
  std::optional<Verdict> verdict;  // `silent` or `behind`
  Nanoseconds age{0};              // how long the ranks that it concerns have shown nothing
  bool is_unsure = false;          // it is not known at this moment what all ranks do
  std::string reason;              // if there is no verdict: why there is none
};

// Returns whether the rank shows heartbeats and nothing else.
bool sends_heartbeats(const RankView& rank) {
  return rank.page.is_written && rank.page.steps > 0 && rank.page.groups.empty();
}

bool all_send_heartbeats(const Picture& picture) {
  const auto has_ended = [](const RankView& rank) { return rank.has_ended; };
  return !std::ranges::all_of(picture.ranks, has_ended) && std::ranges::all_of(picture.ranks, [](const RankView& rank) {
    return rank.has_ended || sends_heartbeats(rank);
  });
}

bool silence_counts(const Picture& picture, const HangPlan& plan) {
  return plan.timeout ||
         std::ranges::any_of(picture.ranks, [](const RankView& rank) { return rank.page.is_written || rank.is_torch; });
}

// Returns the time since the last progress of the running rank that has made none for longest.
Nanoseconds longest_without_progress(const Picture& picture) {
  Nanoseconds longest{0};
  for (const RankView& rank : picture.ranks) {
    if (!rank.has_ended) longest = std::max(longest, picture.now - picture.times.at(rank.rank).progress_at());
  }
  return longest;
}

// Ranks that send heartbeats are judged by them alone, whatever else they do.
Silence find_ranks_behind(const Picture& picture) {
  Silence silence;
  silence.age = longest_without_progress(picture);
  silence.reason = "each rank sent a heartbeat in the last " + base::human_duration(silence.age);
  if (silence.age < limits::kHangFirstWord) return silence;
  std::uint64_t fewest = ~std::uint64_t{0};
  std::uint64_t most = 0;
  std::size_t running = 0;
  std::vector<int> still;
  std::vector<int> with_fewest;
  for (const RankView& rank : picture.ranks) {
    if (rank.has_ended) continue;
    ++running;
    // A rank is stuck even if it fell silent a step later than the others.
    if (picture.now - picture.times.at(rank.rank).progress_at() > silence.age / 2) still.push_back(rank.rank);
    if (rank.page.steps < fewest) with_fewest.clear();
    fewest = std::min(fewest, rank.page.steps);
    most = std::max(most, rank.page.steps);
    if (rank.page.steps == fewest) with_fewest.push_back(rank.rank);
  }
  Verdict& verdict = silence.verdict.emplace();
  verdict.culprits = still.size() < running ? still : fewest < most ? with_fewest : find_odd_ranks(picture.ranks);
  for (const RankView& rank : picture.ranks) {
    if (!rank.has_ended && !verdict.blames(rank.rank)) verdict.waiting.push_back(rank.rank);
  }
  verdict.kind = verdict.culprits.empty() ? VerdictKind::silent : VerdictKind::behind;
  return silence;
}

Silence wait_for_others_to_come(const Picture& picture) {
  Verdict verdict;
  Nanoseconds waited{0};
  Nanoseconds unchanged = Nanoseconds::max();
  for (const RankView& rank : picture.ranks) {
    // Any rank that does not wait may be the awaited one, so its last progress counts, and its end.
    const RankTimes& times = picture.times.at(rank.rank);
    unchanged = std::min(unchanged, picture.now - (rank.has_ended ? times.settled_since() : times.progress_at()));
    if (rank.has_ended || rank.page.waiting_threads == 0) continue;
    verdict.waiting.push_back(rank.rank);
    waited = std::max(waited, picture.now - times.may_wait_since(picture.now));
  }
  Silence silence;
  silence.age = std::min(waited, unchanged);
  if (silence.age.count() > 0) silence.verdict = verdict;
  return silence;
}

// Returns for how long the ranks have shown nothing on their pages, if that matters. Programs without the
// runtime may sleep for as long as they like, unless the user gave a limit.
Nanoseconds silence_of_pages(const Picture& picture, const HangPlan& plan) {
  Nanoseconds silence{0};
  if (silence_counts(picture, plan)) silence = picture.now - picture.changed_at;
  return all_send_heartbeats(picture) ? std::max(silence, longest_without_progress(picture)) : silence;
}

// A rank that only waits lives by the data that it moves. A rank that has just come or ended, or whose wait has just
// ended, does something.
JobTime last_sign_of(const RankView& rank, const RankTimes& times) {
  if (rank.has_ended) return times.settled_since();
  return std::max(times.settled_since(), only_waits(rank) ? times.data_at() : times.sign_at());
}

Silence find_silent_ranks(const Picture& picture, const HangPlan& plan) {
  Silence silence;
  silence.age = silence_of_pages(picture, plan);
  silence.reason = "no rank waits in a known operation";
  if (silence.age < limits::kHangFirstWord) return silence;
  Verdict verdict;
  for (const RankView& rank : picture.ranks) {
    const RankTimes& times = picture.times.at(rank.rank);
    const Nanoseconds age = picture.now - last_sign_of(rank, times);
    if (age < silence.age) {
      silence.age = age;
      silence.reason =
          "rank " + std::to_string(rank.rank) + " showed a sign of life " + base::human_duration(age) + " ago";
    }
    // The activity is to be measured, or the rank may wait again.
    if (!rank.has_ended && (!rank.activity || times.pauses())) {
      silence.is_unsure = true;
      silence.reason = "it is not known yet what rank " + std::to_string(rank.rank) + " does";
      return silence;
    }
    // A thread that waits for a continuation of its own rank does not wait for other ranks.
    const bool waits_for_others = rank.page.waiting_threads > rank.page.continuations;
    if (!rank.has_ended && waits_for_others) verdict.waiting.push_back(rank.rank);
  }
  if (silence.age.count() > 0) silence.verdict = verdict;
  return silence;
}

// It is a hang only if no rank does anything. Ranks that send heartbeats, and show nothing else, are judged by these.
// If the user gave a limit, ranks that wait longer than that for others to come are a hang, too.
Silence find_silence(const Picture& picture, const HangPlan& plan) {
  if (picture.depth != SampleDepth::all) return {{}, {}, false, "no rank waits"};
  if (all_send_heartbeats(picture)) return find_ranks_behind(picture);
  Silence silence;
  if (plan.timeout) silence = wait_for_others_to_come(picture);
  return silence.verdict ? silence : find_silent_ranks(picture, plan);
}

// --- Pictures in which ranks wait.

// Returns whether no rank in particular is awaited.
bool names_none(const Verdict& verdict) {
  return is_without_calls(verdict.kind) || all_wait(verdict.kind);
}

// Represents a verdict on a picture.
struct Stall {
  Verdict verdict;
  Nanoseconds age{0};
  JobTime blamed_since{};
  int proofs = 0;
};

// Holds what the functions below share. A rank that only waits lives by the data that it moves: what it does meanwhile,
// such as polling, is no sign of life.
class Judge {
 public:
  Judge(const Picture& picture, const HangPlan& plan) : picture_(picture), plan_(plan) {}

  Judgement judgement() const;

 private:
  Nanoseconds since(JobTime time) const { return picture_.now - time; }
  const RankTimes& times_of(int rank) const { return picture_.times.at(rank); }
  Nanoseconds age_of(const Verdict& verdict) const;
  bool may_be_resolved(const Verdict& verdict) const;
  std::optional<Stall> most_pressing() const;
  bool waits_itself(const Verdict& verdict) const;
  StallFacts facts_of(const Stall& stall) const;
  Nanoseconds ended_for(const Verdict& verdict) const;
  Nanoseconds progress_age(const Verdict& verdict, Nanoseconds age) const;
  Nanoseconds awaited_for(const Verdict& verdict, Nanoseconds age) const;
  std::pair<std::vector<int>, bool> concerned_by(const Verdict& verdict) const;
  std::optional<Nanoseconds> still_for(const RankView& rank, const RankTimes& times, bool lives_by_data) const;
  std::optional<Nanoseconds> still_for(const Verdict& verdict) const;
  Nanoseconds more_time(const Verdict& verdict) const;
  std::string explain(const Stall& stall, const StallFacts& facts, const Judgement& judgement) const;

  const Picture& picture_;
  const HangPlan& plan_;
};

// The age counts from the wait, because programs begin operations long before they wait for them. Calls that differ are
// certain before that. While a send or a receive stalls, other ranks may exchange data in its group.
Nanoseconds Judge::age_of(const Verdict& verdict) const {
  Nanoseconds waited{0};
  for (const int rank : verdict.waiting) {
    const Nanoseconds wait = since(times_of(rank).may_wait_since(picture_.now));
    waited = std::max(waited, verdict.is_transfer ? std::min(since(times_of(rank).progress_at()), wait) : wait);
  }
  if (verdict.is_transfer) return waited;
  const auto group = picture_.groups.find(verdict.key());
  if (group == picture_.groups.end()) return waited;  // the rank waits in init(), before the group exists
  const Nanoseconds age = since(group->second.progress_at);
  return differs(verdict.kind) ? age : std::min(age, waited);
}

// Returns whether a rank that is waited for does something, so that it may still make the call.
bool Judge::may_be_resolved(const Verdict& verdict) const {
  return std::ranges::any_of(verdict.culprits,
                             [this](int rank) { return since(times_of(rank).sign_at()) < limits::kHangActivity; });
}

// Prefers a verdict that nothing can resolve, then one that no active rank can resolve, then the oldest one.
std::optional<Stall> Judge::most_pressing() const {
  std::optional<Stall> most;
  std::tuple<bool, bool, Nanoseconds> key_of_most;
  for (const Wait& wait : picture_.waits) {
    const Verdict& verdict = wait.verdict;
    const bool proves = verdict.kind == VerdictKind::ended || differs(verdict.kind);
    const bool is_certain = (proves && !verdict.is_doubtful) || verdict.is_proven_circle();
    const std::tuple key(is_certain, !may_be_resolved(verdict), age_of(verdict));
    if (most && key <= key_of_most) continue;
    most = {verdict, std::get<2>(key), wait.blamed_since, wait.proofs};
    key_of_most = key;
  }
  return most;
}

// Returns whether a culprit waits, too, in an operation that the pages do not show. Then any other rank may be the one
// for which all of them wait.
bool Judge::waits_itself(const Verdict& verdict) const {
  return verdict.kind == VerdictKind::not_called && std::ranges::any_of(picture_.ranks, [&](const RankView& rank) {
           return verdict.blames(rank.rank) && rank.page.waiting_threads > 0;
         });
}

StallFacts Judge::facts_of(const Stall& stall) const {
  const Verdict& verdict = stall.verdict;
  StallFacts facts;
  facts.kind = verdict.kind;
  facts.is_partial = verdict.is_partial || (waits_itself(verdict) && picture_.is_part);
  facts.is_by_stack = verdict.is_by_stack;
  facts.is_doubtful = verdict.is_doubtful;
  facts.is_proven = stall.proofs >= limits::kHangProof;
  facts.is_open = verdict.kind == VerdictKind::not_called && !verdict.is_by_stack && verdict.culprits.size() > 1 &&
                  std::ranges::any_of(picture_.ranks, [&](const RankView& rank) {
                    return rank.is_unread && verdict.blames(rank.rank);
                  });
  facts.others_judge = picture_.is_part;
  facts.longest_pause = picture_.longest_pause;
  const auto is_warm = [](const auto& entry) { return entry.second.is_warm; };
  const auto group = picture_.groups.find(verdict.key());
  // What stacks show is no group, and belongs to the job.
  facts.is_warm = facts.is_by_stack ? std::ranges::any_of(picture_.groups, is_warm)
                                    : group != picture_.groups.end() && group->second.is_warm;
  facts.age = stall.age;
  if (verdict.kind == VerdictKind::ended) facts.age = std::min(facts.age, ended_for(verdict));
  // A transfer is under way from when the later side called it.
  if (all_wait(verdict.kind) && verdict.called_at != 0 && verdict.called_at < picture_.taken_at) {
    facts.age = std::min(facts.age, Nanoseconds(static_cast<std::int64_t>(picture_.taken_at - verdict.called_at)));
  }
  facts.blamed_for = since(stall.blamed_since);
  facts.progress_age = progress_age(verdict, facts.age);
  facts.unawaited = facts.age - awaited_for(verdict, facts.age);
  // Ranks may rest for as long as they like until others wait for them.
  if (const auto still = still_for(verdict)) facts.still_for = std::min(*still, facts.age);
  facts.more_time = more_time(verdict);
  return facts;
}

// Returns how long the awaited ranks are known to have ended. A reader asks each rank at least every other second. If
// the verdict is doubtful, that time is subtracted, so that the pages are newer than the end of the rank.
Nanoseconds Judge::ended_for(const Verdict& verdict) const {
  Nanoseconds least = Nanoseconds::max();
  for (const int rank : verdict.culprits) {
    least = std::min(least, since(times_of(rank).ended_at().value_or(picture_.now)));
  }
  const Nanoseconds lag =
      verdict.is_doubtful && is_sampled(verdict, picture_.ranks) ? Nanoseconds(3 * limits::kTorchPoll) : Nanoseconds(0);
  return std::max(least - lag, Nanoseconds(0));
}

// Returns the time since the awaited ranks last made progress, or the age if no rank in particular is awaited.
Nanoseconds Judge::progress_age(const Verdict& verdict, Nanoseconds age) const {
  if (names_none(verdict)) return age;
  std::vector<Nanoseconds> ages;
  for (const int rank : verdict.culprits) {
    const RankTimes& times = times_of(rank);
    // If a page shows no collectives, all data that its rank moves counts.
    const JobTime at = verdict.is_by_stack ? times.data_at() : times.exchange_at();
    ages.push_back(std::min(since(at), since(times.settled_since())));
  }
  Nanoseconds progress{0};
  // Any of several late ranks may be stuck. A circle is closed only when its last rank has stopped.
  const bool is_circle = verdict.kind == VerdictKind::each_other;
  if (!ages.empty()) progress = is_circle ? std::ranges::min(ages) : std::ranges::max(ages);
  if (waits_itself(verdict)) {
    for (const RankView& rank : picture_.ranks) {
      progress = std::min(progress, since(times_of(rank.rank).settled_since()));
      if (!rank.has_ended) progress = std::min(progress, since(times_of(rank.rank).progress_at()));
    }
  }
  return verdict.is_by_stack ? std::min(progress, age) : progress;
}

// Returns how long a rank has been known to wait. PyTorch's recorder shows a call from its beginning, and not whether a
// thread waits for it. Returns 0 if all ranks do something else.
Nanoseconds Judge::awaited_for(const Verdict& verdict, Nanoseconds age) const {
  if (verdict.is_by_stack || verdict.waiting.empty()) return age;
  Nanoseconds longest{0};
  for (const int rank : verdict.waiting) {
    longest = std::max(longest, since(times_of(rank).here_since(picture_.now)));
  }
  return std::min(age, longest);
}

// Returns the ranks whose signs of life count, and whether these only wait for data. If none in particular is awaited,
// those that wait count. Any rank that does not wait may be the one for whose coming the others wait.
std::pair<std::vector<int>, bool> Judge::concerned_by(const Verdict& verdict) const {
  if (all_wait(verdict.kind)) return {verdict.waiting, true};
  if (verdict.kind != VerdictKind::silent || verdict.waiting.empty()) return {verdict.culprits, false};
  std::vector<int> free = free_ranks(picture_.ranks);
  return free.empty() ? std::pair(verdict.waiting, true) : std::pair(std::move(free), false);
}

// Returns how long the rank has shown no sign of life that counts in this verdict. Returns std::nullopt if the kernel
// does not report it, or if a GPU without readable counters moves the data.
std::optional<Nanoseconds> Judge::still_for(const RankView& rank, const RankTimes& times, bool lives_by_data) const {
  if (!rank.activity || !rank.activity->is_complete) return std::nullopt;
  if (!lives_by_data) return since(times.sign_at());
  if (uses_gpu(rank) && !rank.activity->counts_gpu_data) return std::nullopt;
  // What continuations of the program do counts, too.
  return rank.page.continuations > 0 ? since(std::max(times.data_at(), times.sign_at())) : since(times.data_at());
}

// Returns how long the ranks that this verdict concerns showed no sign of life. If all wait, only data that moves
// counts. Returns std::nullopt if that is not known of one of them, or if it concerns none.
std::optional<Nanoseconds> Judge::still_for(const Verdict& verdict) const {
  const auto [concerned, waits_for_data] = concerned_by(verdict);
  const bool concerns_all = waits_itself(verdict);
  std::optional<Nanoseconds> still;
  for (const RankView& rank : picture_.ranks) {
    const RankTimes& times = times_of(rank.rank);
    const bool is_concerned = std::ranges::find(concerned, rank.rank) != concerned.end();
    if (!is_concerned && !concerns_all) continue;
    Nanoseconds own = since(times.settled_since());  // a rank that has just ended did something until then
    if (is_concerned || !rank.has_ended) {
      const auto shown = still_for(rank, times, waits_for_data || (!verdict.blames(rank.rank) && only_waits(rank)));
      if (!shown) return std::nullopt;
      own = std::min(own, *shown);
    }
    still = std::min(still.value_or(own), own);
  }
  return still;
}

// Returns how much more time the awaited ranks have asked for or, if none is awaited, any rank.
Nanoseconds Judge::more_time(const Verdict& verdict) const {
  std::uint64_t until = 0;
  for (const RankView& rank : picture_.ranks) {
    if (names_none(verdict) || verdict.blames(rank.rank)) until = std::max(until, rank.page.more_time_until);
  }
  constexpr std::uint64_t kMost = std::uint64_t{1} << 60;  // the page may contain any number
  const std::uint64_t left = until - std::min(until, picture_.taken_at);
  return Nanoseconds(static_cast<std::int64_t>(std::min(left, kMost)));
}

std::string Judge::explain(const Stall& stall, const StallFacts& facts, const Judgement& judgement) const {
  const Verdict& verdict = stall.verdict;
  const std::vector<int>& concerned = verdict.culprits.empty() ? verdict.waiting : verdict.culprits;
  std::string text = base::ranks_text(concerned, "has been", "have been") +
                     (verdict.culprits.empty() ? " waiting for " : " awaited for ") + base::human_duration(facts.age);
  for (const RankView& rank : picture_.ranks) {
    if (!verdict.blames(rank.rank) || !rank.activity) continue;
    const auto percent = std::lround(rank.activity->cpu_share * 100);
    text += "; rank " + std::to_string(rank.rank) + ": " + std::string(describe(rank.activity->last_sign)) + " (CPU " +
            std::to_string(percent) + " %)";
  }
  if (!judgement.stall) return text + "; the calls of other nodes are not known yet";
  const StallJudgement& outcome = *judgement.stall;
  if (facts.age < outcome.first_word) {
    text += "; that is reported after " + base::human_duration(outcome.first_word);
  }
  if (!outcome.ends_in) return text + "; there is no limit yet, because too little is known of the ranks";
  const Nanoseconds left = std::max(*outcome.ends_in, Nanoseconds(0));
  return text + "; the limit of " + base::human_duration(outcome.limit) + " (" + outcome.why + ") is over in " +
         base::human_duration(left);
}

Judgement Judge::judgement() const {
  Judgement judgement;
  for (const Wait& wait : picture_.waits) judgement.verdicts.push_back(wait.verdict);
  std::optional<Stall> stall = most_pressing();
  if (!stall) {
    const Silence silence = find_silence(picture_, plan_);
    judgement.is_unsure = silence.is_unsure;
    judgement.explanation = "no verdict: " + silence.reason;
    if (!silence.verdict) return judgement;
    stall = {*silence.verdict, silence.age, picture_.no_waits_since, 0};
  }
  const StallFacts facts = facts_of(*stall);
  judgement.verdict = stall->verdict;
  judgement.age = facts.age;
  // The nodes describe a difference once they are asked for it.
  if (stall->verdict.is_described()) judgement.stall = judge_stall(facts, plan_);
  judgement.explanation = explain(*stall, facts, judgement);
  return judgement;
}

}  // namespace

Judgement judge(const Picture& picture, const HangPlan& plan) {
  return Judge(picture, plan).judgement();
}

NextSample next_sample(const Picture& picture, const HangPlan& plan) {
  if (picture.since_deep < limits::kHangEvidence) return {};
  if (plan.is_off()) return {SampleDepth::states, false};
  if (!picture.stopped.empty()) return {SampleDepth::all, false};
  Nanoseconds longest = silence_of_pages(picture, plan);
  for (const auto& [key, times] : picture.groups) {
    if (times.somebody_waits) longest = std::max(longest, picture.now - times.progress_at);
  }
  for (const auto& [rank, times] : picture.times) {
    if (times.waits()) longest = std::max(longest, picture.now - times.progress_at());
  }
  if (longest < limits::kHangEvidence) return {SampleDepth::states, false};
  return {SampleDepth::all, longest >= limits::kHangActivity};
}

}  // namespace ddp::launcher
