// RestartPolicy: whether a job that has failed is started again, and when. Pure.
#pragma once

#include <chrono>
#include <string>
#include <variant>
#include <vector>

#include "launcher/supervise/job_state.h"

namespace ddp::launcher {

struct RestartAfter {
  std::chrono::milliseconds delay;
};

struct NoRestart {
  std::string reason;  // a sentence for the user; empty: nobody expects one
};

using RestartDecision = std::variant<RestartAfter, NoRestart>;

// `run_times` are those of all attempts so far, the one that ended with `outcome` last. A worker's failure and a rank
// that does not end are worth another attempt; a request to end and a program that cannot be started are not.
//
// An attempt that lasted for limits::kProgressTime has made progress. Others in a row double the delay, from
// limits::kRestartDelay to limits::kLongestRestartDelay, and after limits::kAttemptsWithoutProgress it is given up.
RestartDecision decide_restart(const JobOutcome& outcome, const std::vector<std::chrono::nanoseconds>& run_times,
                               int max_restarts);

}  // namespace ddp::launcher
