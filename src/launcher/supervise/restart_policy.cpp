#include "launcher/supervise/restart_policy.h"

namespace ddp::launcher {

bool is_worth_another(const JobOutcome& outcome) {
  return outcome.culprit() != nullptr || outcome.cause_as<ExitTimedOut>() != nullptr ||
         outcome.cause_as<HangNews>() != nullptr;
}

RestartDecision decide_restart(const JobOutcome& outcome, const std::vector<std::chrono::nanoseconds>& run_times,
                               int max_restarts) {
  if (max_restarts == 0 || !is_worth_another(outcome)) return NoRestart{};
  if (!outcome.unkillable.empty()) return NoRestart{"not restarted: some of its processes cannot be killed"};
  return next_attempt(run_times, max_restarts);
}

}  // namespace ddp::launcher
