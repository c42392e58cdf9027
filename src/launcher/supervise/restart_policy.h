// RestartPolicy: whether a job that has failed is started again, and when. Pure.
#pragma once

#include <chrono>
#include <vector>

#include "launcher/nodes/next_attempt.h"
#include "launcher/supervise/outcome.h"

namespace ddp::launcher {

// A worker's failure, a hang, and a rank that does not end are worth another attempt; a request to end and a program
// that cannot be started are not.
bool is_worth_another(const JobOutcome& outcome);

// `run_times` are those of all attempts so far, the one that ended with `outcome` last.
RestartDecision decide_restart(const JobOutcome& outcome, const std::vector<std::chrono::nanoseconds>& run_times,
                               int max_restarts);

}  // namespace ddp::launcher
