#include "launcher/run/watchdog/stall_policy.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "launcher/limits.h"

namespace ddp::launcher {
namespace {

using Nanoseconds = std::chrono::nanoseconds;

// PyTorch's ranks may begin an operation and wait for it later. The limit is this much longer as long as none waits.
constexpr int kUnawaited = 4;

struct Limit {
  Nanoseconds time{0};
  Nanoseconds passed{0};
  std::string why;

  Nanoseconds left() const { return time - passed; }
};

// Returns the limit for a hang that nothing can resolve, or std::nullopt if this is no such hang.
std::optional<Limit> certain_limit(const StallFacts& facts) {
  if (facts.is_by_stack) return std::nullopt;
  if (differs(facts.kind) && !facts.is_doubtful)
    return Limit{limits::kHangConclusive, facts.age, "the ranks cannot continue"};
  // Data that the ended rank sent last may still be on its way.
  if (facts.kind == VerdictKind::ended && !facts.is_doubtful)
    return Limit{limits::kHangFirstWord, facts.age, "an exited rank cannot make this call"};
  if (facts.kind != VerdictKind::each_other || !facts.is_proven) return std::nullopt;
  return Limit{limits::kHangFirstWord, facts.age, "no other rank can resolve it"};
}

// Returns the limit that was learnt from the pauses of this job.
Limit learnt_limit(const StallFacts& facts) {
  const auto learnt = std::max<Nanoseconds>(limits::kHangFloor, limits::kHangFactor * facts.longest_pause);
  const bool is_floor = learnt == Nanoseconds(limits::kHangFloor);
  return {learnt, *facts.still_for,
          is_floor ? "the pauses so far were short"
                   : std::to_string(limits::kHangFactor) + " times the longest pause so far, " +
                         base::human_duration(facts.longest_pause)};
}

// Returns the limit that applies if the user gave none. Only an awaited rank about which something is known can be
// given up.
std::optional<Limit> unknown_limit(const StallFacts& facts, const HangPlan& plan) {
  if (facts.kind == VerdictKind::behind || facts.is_partial || !facts.still_for) return std::nullopt;
  if (plan.limit == HangLimit::learnt && facts.is_warm && !facts.is_by_stack) return learnt_limit(facts);
  return Limit{plan.still, *facts.still_for, all_wait(facts.kind) ? "no data has moved" : "no sign of life"};
}

Nanoseconds first_word(const StallFacts& facts, const HangPlan& plan) {
  constexpr int kPauses = 4;
  Nanoseconds word = limits::kHangFirstWordCold;
  const bool wait_for_others_to_come = facts.kind == VerdictKind::silent && facts.still_for;
  if (is_without_calls(facts.kind) && !wait_for_others_to_come) word = limits::kHangFirstWordSilent;
  if (facts.kind == VerdictKind::each_other || facts.kind == VerdictKind::ended) word = limits::kHangFirstWord;
  if (facts.is_warm && !is_without_calls(facts.kind) && facts.kind != VerdictKind::ended) {
    word = std::min<Nanoseconds>(kPauses * facts.longest_pause, limits::kHangLastWord);
  }
  // Verdicts from stacks need the activity of the processes, which takes some seconds to measure.
  const Nanoseconds least = (facts.is_by_stack ? 2 : 1) * Nanoseconds(limits::kHangFirstWord);
  if (!plan.timeout) return std::max(word, least);
  word = std::min<Nanoseconds>(word, *plan.timeout / 4);
  return std::max(word, std::min<Nanoseconds>(*plan.timeout, least));
}

// Returns the limit that the user has given.
Limit users_limit(const StallFacts& facts, const HangPlan& plan, Nanoseconds first_word) {
  Limit users{*plan.timeout, facts.progress_age, "--hang-timeout"};
  const bool is_awaited = facts.unawaited.count() == 0 || facts.unawaited < facts.age;
  if (!is_awaited) {
    users = {kUnawaited * users.time, users.passed,
             "4 times --hang-timeout, as long as it is not certain that a rank waits"};
  }
  // Reports the stall before it ends the job, even if the awaited rank has worked alone for longer than the limit.
  const auto after_report = std::min<Nanoseconds>(users.time, first_word + limits::kHangNotice);
  const Nanoseconds awaited_for = is_awaited ? facts.age - facts.unawaited : facts.age;
  users.passed = std::min(users.passed, users.time + awaited_for - after_report);
  return users;
}

// Returns the limit for a hang that something may still resolve.
std::optional<Limit> uncertain_limit(const StallFacts& facts, const HangPlan& plan, Nanoseconds first_word) {
  // A node that sees only its own ranks does not know whether the ranks of other nodes work.
  if (facts.others_judge && (facts.is_partial || is_without_calls(facts.kind))) return std::nullopt;
  std::optional<Limit> unknown = unknown_limit(facts, plan);
  if (!plan.timeout) return unknown;
  Limit users = users_limit(facts, plan, first_word);
  const bool is_learnt = unknown && plan.limit == HangLimit::learnt && unknown->left() < users.left();
  return is_learnt ? unknown : std::optional(std::move(users));
}

// Sets when the limit ends the job. A rank may have asked for more time. Whom a verdict blames must have been blamed
// for a while.
void apply(const Limit& limit, const StallFacts& facts, StallJudgement& judgement) {
  judgement.limit = limit.time;
  judgement.ends_in = limit.left();
  judgement.why = limit.why;
  if (judgement.hang_class == HangClass::certain) return;
  const Nanoseconds least = std::min<Nanoseconds>(limits::kBlamed, limit.time);
  judgement.ends_in = std::max(limit.left(), least - facts.blamed_for);
  if (facts.more_time <= std::max(limit.left(), Nanoseconds(0))) return;
  judgement.ends_in = facts.more_time;
  judgement.limit = facts.age + facts.more_time;
  judgement.why = "a rank asked for more time";
}

// Returns whether the stall is more than a note by now.
bool is_warning(const StallFacts& facts, const HangPlan& plan, const StallJudgement& judgement) {
  if (facts.age >= Nanoseconds(limits::kHangLongWarning)) return true;
  if (facts.still_for && *facts.still_for >= Nanoseconds(limits::kHangStillWarning)) return true;
  // A rank that has just ended may have taken part in the operation that an older sample shows as waited for.
  const bool has_just_ended = facts.kind == VerdictKind::ended && facts.age <= Nanoseconds(0);
  if (judgement.hang_class == HangClass::certain && !has_just_ended) return true;
  // Halfway to a short limit, the first report is only seconds old.
  const bool is_long = judgement.limit >= Nanoseconds(limits::kHangLongLimit);
  return plan.timeout && is_long && judgement.ends_in && *judgement.ends_in <= judgement.limit / 2;
}

}  // namespace

std::string_view name_of(HangClass hang_class) {
  constexpr std::array kNames = {"certain", "users_limit", "unknown"};
  return kNames[static_cast<std::size_t>(hang_class)];
}

StallJudgement judge_stall(const StallFacts& facts, const HangPlan& plan) {
  StallJudgement judgement;
  judgement.first_word = first_word(facts, plan) + (facts.is_open ? limits::kStackRead : Nanoseconds(0));
  std::optional<Limit> limit = certain_limit(facts);
  judgement.hang_class = limit ? HangClass::certain : plan.timeout ? HangClass::users_limit : HangClass::unknown;
  if (!limit) limit = uncertain_limit(facts, plan, judgement.first_word);
  if (limit) {
    // The coordinator sees the ranks of all nodes, so it names a culprit before a node that sees only its own ranks.
    if (facts.others_judge) limit->time += limits::kHangFirstWord;
    apply(*limit, facts, judgement);
  }
  judgement.is_warning = is_warning(facts, plan, judgement);
  return judgement;
}

}  // namespace ddp::launcher
