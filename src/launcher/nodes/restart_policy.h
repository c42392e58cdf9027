// RestartPolicy: whether a job whose attempt has failed is started again, and when. Pure.
#pragma once

#include <chrono>
#include <string>
#include <variant>
#include <vector>

namespace ddp::launcher {

struct RestartAfter {
  std::chrono::milliseconds delay;
};

struct NoRestart {
  std::string reason;  // for the user: "given up after 2 restarts"; empty: no restart is expected
};

using RestartDecision = std::variant<RestartAfter, NoRestart>;

// `run_times`: of all attempts so far. One that lasted for limits::kProgressTime has made progress. Others in a row
// double the delay, from limits::kRestartDelay to limits::kLongestRestartDelay, and after
// limits::kAttemptsWithoutProgress the job is given up.
RestartDecision decide_restart(const std::vector<std::chrono::nanoseconds>& run_times, int max_restarts);

}  // namespace ddp::launcher
