// Whether there is another attempt, and when: by how long those before lasted. Pure.
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
  std::string reason;  // a sentence for the user; empty: nobody expects one
};

using RestartDecision = std::variant<RestartAfter, NoRestart>;

// `run_times`: of all attempts so far. One that lasted for limits::kProgressTime has made progress. Others in a row
// double the delay, from limits::kRestartDelay to limits::kLongestRestartDelay, and after
// limits::kAttemptsWithoutProgress it is given up.
RestartDecision next_attempt(const std::vector<std::chrono::nanoseconds>& run_times, int max_restarts);

}  // namespace ddp::launcher
