// HangNews is what the watchdog reports about ranks that make no progress. It is a plain value.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/run/ranks/evidence.h"
#include "launcher/run/ranks/rank_view.h"
#include "launcher/run/ranks/straggler_report.h"
#include "launcher/run/ranks/verdict.h"
#include "launcher/run/watchdog/stall_policy.h"

namespace ddp::launcher {

struct HangNews {
  enum class Kind : std::uint8_t {
    stalled,  // a stall is reported as a note
    warned,   // the stall is serious; stacks are taken if that does not disturb the job
    goes_on,  // the reported stall is over
    stopped,  // a rank was stopped; all clocks pause until it is resumed
    resumed,
    hung,   // the limit has passed
    asked,  // the user sent SIGQUIT; the verdict is `silent` if no rank waits
  };
  Kind kind = Kind::stalled;
  Verdict verdict;  // for `stopped` and `resumed`, these ranks are the culprits
  std::chrono::nanoseconds age{0};
  StallJudgement judgement;
  std::string explanation;  // why there is this verdict, or why there is none
  bool ends_job = false;    // the job is terminated at the limit; otherwise the stall is only reported
  std::vector<RankView> ranks;
  Evidence evidence;           // empty if none was taken
  StragglerReport stragglers;  // only for `asked`
};

// Returns the kind as the event log and the report write it, for example "stalled".
std::string_view name_of(HangNews::Kind kind);

}  // namespace ddp::launcher
