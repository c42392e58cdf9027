// Decides whether a job whose attempt has failed is started again, and when. The function is pure.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <variant>

#include "wire/control_message.h"

namespace ddp::launcher {

struct RestartAfter {
  std::chrono::milliseconds delay;
};

struct NoRestart {
  std::string reason;  // for the user, as in "given up after 2 restarts"; empty if no restart is expected
};

using RestartDecision = std::variant<RestartAfter, NoRestart>;

struct PastAttempt {
  std::chrono::nanoseconds run_time{0};
  wire::Progress progress = wire::Progress::unknown;  // progress of all nodes
};

// `attempts` holds all attempts so far. An attempt was in vain if none of its ranks finished a step. If the program
// does not use the runtime, its steps cannot be seen. Such an attempt was in vain if it failed within
// limits::kProgressTime. After an attempt that was not, there is no delay. Each further attempt in vain
// triples it, from limits::kRestartDelay to limits::kLongestRestartDelay. After limits::kAttemptsWithoutProgress of
// them in a row, the job is given up.
RestartDecision decide_restart(std::span<const PastAttempt> attempts, int max_restarts);

}  // namespace ddp::launcher
