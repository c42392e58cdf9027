// What follows from a stall: when it is reported, and whether and when the job is terminated for it. A pure function of
// the verdict, some ages and the user's options. docs/development/decisions/0026-three-classes-of-hangs.md,
// docs/explanation/hangs.md
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/plan/launch_plan.h"
#include "launcher/watchdog/verdict.h"

namespace ddp::launcher {

enum class HangClass : std::uint8_t {
  certain,      // nothing can resolve it
  users_limit,  // --hang-timeout was given
  unknown,      // it was not
};

std::string_view name_of(HangClass hang_class);  // "certain", "users_limit", "unknown": as the event log has them

// All times are durations up to now. They do not run while a rank is stopped, or the node or the launcher sleeps.
struct StallFacts {
  VerdictKind kind = VerdictKind::silent;
  bool is_partial = false;          // the verdict knows nothing of some ranks of the group
  bool is_proven = false;           // of `each_other`: no thread is left that could resolve it
  bool is_by_stack = false;         // the verdict comes from stacks, which prove nothing
  std::chrono::nanoseconds age{0};  // since the group or, if nobody waits in one, the job last went on
  // Since the rank that is waited for last made program progress. If several are, or all wait: the longest.
  std::chrono::nanoseconds progress_age{0};
  // Without any sign of life of all ranks that are waited for; if all wait, without data that moved; of `silent`, of
  // all ranks, where some wait for others to come. Nothing: unknown, or no rank is waited for.
  std::optional<std::chrono::nanoseconds> still_for;
  std::chrono::nanoseconds more_time{0};  // that a rank has asked for, from now on
  bool is_warm = false;                   // the group has done so much that its pauses tell something
  std::chrono::nanoseconds longest_pause{0};
  bool others_judge = false;  // another node sees more ranks, and is to be the first to judge
};

struct StallJudgement {
  HangClass hang_class = HangClass::unknown;
  std::chrono::nanoseconds first_word{0};           // the age at which the stall is reported, as a note
  bool is_warning = false;                          // it is now more than a note
  std::optional<std::chrono::nanoseconds> ends_in;  // from now on, 0 or less: now. Nothing: the job is never terminated
  std::chrono::nanoseconds limit{0};                // of the time that decides
  std::string why;                                  // where the limit comes from: "--hang-timeout"
};

// --hang-action is not its business: it says what is done when the time has come.
StallJudgement judge_stall(const StallFacts& facts, const HangPlan& plan);

}  // namespace ddp::launcher
