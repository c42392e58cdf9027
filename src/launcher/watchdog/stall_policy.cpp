#include "launcher/watchdog/stall_policy.h"

#include <algorithm>
#include <array>

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
  if (differs(facts.kind)) return Limit{limits::kHangConclusive, facts.age, "the ranks cannot continue"};
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

}  // namespace

std::string_view name_of(HangClass hang_class) {
  constexpr std::array kNames = {"certain", "users_limit", "unknown"};
  return kNames[static_cast<std::size_t>(hang_class)];
}

StallJudgement judge_stall(const StallFacts& facts, const HangPlan& plan) {
  StallJudgement judgement;
  judgement.first_word = first_word(facts, plan) + (facts.is_open ? limits::kStackRead : Nanoseconds(0));
  std::optional<Limit> limit = certain_limit(facts);
  if (limit) {
    judgement.hang_class = HangClass::certain;
  } else {
    limit = unknown_limit(facts, plan);
    if (plan.timeout) {
      judgement.hang_class = HangClass::users_limit;
      Limit users{*plan.timeout, facts.progress_age, "--hang-timeout"};
      const bool is_awaited = facts.unawaited.count() == 0 || facts.unawaited < facts.age;
      if (!is_awaited) users = {kUnawaited * users.time, users.passed, "4 times --hang-timeout"};
      // Reports the stall before it ends the job, even if the awaited rank has worked alone for longer than the limit.
      const auto after_report = std::min<Nanoseconds>(users.time, judgement.first_word + limits::kHangNotice);
      const Nanoseconds awaited_for = is_awaited ? facts.age - facts.unawaited : facts.age;
      users.passed = std::min(users.passed, users.time + awaited_for - after_report);
      const bool is_learnt = limit && plan.limit == HangLimit::learnt && limit->left() < users.left();
      if (!is_learnt) limit = users;
    }
  }
  // A node that sees only its own ranks does not know whether the ranks of other nodes work.
  const bool sees_too_little = facts.is_partial || is_without_calls(facts.kind);
  if (facts.others_judge && sees_too_little && judgement.hang_class != HangClass::certain) limit.reset();
  // The coordinator sees the ranks of all nodes, so it names a culprit before a node that sees only its own ranks.
  if (limit && facts.others_judge) limit->time += limits::kHangFirstWord;
  if (limit) {
    judgement.limit = limit->time;
    judgement.ends_in = limit->left();
    judgement.why = limit->why;
    if (judgement.hang_class != HangClass::certain) {
      const Nanoseconds least = std::min<Nanoseconds>(limits::kBlamed, limit->time);
      judgement.ends_in = std::max(limit->left(), least - facts.blamed_for);
    }
    if (judgement.hang_class != HangClass::certain && facts.more_time > std::max(limit->left(), Nanoseconds(0))) {
      judgement.ends_in = facts.more_time;
      judgement.limit = facts.age + facts.more_time;
      judgement.why = "a rank asked for more time";
    }
  }
  // Halfway to a short limit, the first report is only seconds old.
  const bool is_long = judgement.limit >= Nanoseconds(limits::kHangLongLimit);
  const bool is_half_over = plan.timeout && is_long && judgement.ends_in && *judgement.ends_in <= judgement.limit / 2;
  const bool is_still = facts.still_for && *facts.still_for >= Nanoseconds(limits::kHangStillWarning);
  // A rank that has just ended may have taken part in the operation that an older sample shows as waited for.
  const bool is_certain =
      judgement.hang_class == HangClass::certain && (facts.kind != VerdictKind::ended || facts.age > Nanoseconds(0));
  judgement.is_warning = is_certain || is_half_over || is_still || facts.age >= Nanoseconds(limits::kHangLongWarning);
  return judgement;
}

}  // namespace ddp::launcher
