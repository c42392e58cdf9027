// Decides what follows from a stall: when it is reported, and whether and when the job is terminated for it. The
// decision is a pure function of the verdict, some ages and the user's options.
// docs/development/decisions/0026-three-classes-of-hangs.md, docs/reference/diagnoses.md
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/run/ranks/verdict.h"
#include "launcher/start/plan/hang_plan.h"

namespace ddp::launcher {

enum class HangClass : std::uint8_t {
  certain,      // nothing can resolve the hang
  users_limit,  // --hang-timeout was given
  unknown,      // --hang-timeout was not given
};

std::string_view name_of(HangClass hang_class);  // "certain", "users_limit" or "unknown", as in the event log

// All times are durations up to now. They pause while a rank is stopped, or while the node or the launcher is
// suspended.
struct StallFacts {
  VerdictKind kind = VerdictKind::silent;
  bool is_partial = false;   // the verdict knows nothing of some ranks of the group
  bool is_proven = false;    // no thread is left that could resolve the hang (only for `each_other`)
  bool is_open = false;      // a stack that is read soon may show that an awaited rank waits itself
  bool is_by_stack = false;  // the verdict comes from stacks, which prove nothing
  bool is_doubtful = false;  // it is not known whether the ended rank is needed, or whether calls that differ do harm
  std::chrono::nanoseconds age{0};  // time since the last progress of the group or, if no rank waits in one, of the job
  // This is the first part of `age`, in which all ranks that began the operation did something else than to wait for
  // it.
  std::chrono::nanoseconds unawaited{0};
  std::chrono::nanoseconds blamed_for{0};  // how long there has been a verdict with these culprits
  // This is the time since the awaited rank last made program progress. If several ranks are awaited, it is the longest
  // of their times. If ranks wait for each other, it is the shortest. If all ranks wait, it equals `age`.
  std::chrono::nanoseconds progress_age{0};
  // This is how long no awaited rank has shown a sign of life. If all ranks wait, it is how long no data has moved. For
  // `silent`, each rank that does not wait counts as awaited if others wait for ranks to come. It is std::nullopt if it
  // is unknown, or if no rank is awaited.
  std::optional<std::chrono::nanoseconds> still_for;
  std::chrono::nanoseconds more_time{0};  // how much more time a rank has asked for, from now on
  bool is_warm = false;                   // the group has done enough collectives to learn from its pauses
  std::chrono::nanoseconds longest_pause{0};
  bool others_judge = false;  // another node sees more ranks, and is to be the first to judge
};

struct StallJudgement {
  HangClass hang_class = HangClass::unknown;
  std::chrono::nanoseconds first_word{0};  // the age at which the stall is reported, as a note
  bool is_warning = false;                 // the stall is more than a note by now
  // This is the time until the job is terminated; 0 or less means now. std::nullopt means that it is never terminated.
  std::optional<std::chrono::nanoseconds> ends_in;
  std::chrono::nanoseconds limit{0};  // the limit that decides
  std::string why;                    // where the limit comes from, such as "--hang-timeout"
};

// Does not consider --hang-action, which decides what happens when the limit has passed.
StallJudgement judge_stall(const StallFacts& facts, const HangPlan& plan);

}  // namespace ddp::launcher
