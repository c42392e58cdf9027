// RestartPolicy: whether a job whose attempt has failed is started again, and when. Pure.
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
  std::string reason;  // for the user: "given up after 2 restarts"; empty: no restart is expected
};

using RestartDecision = std::variant<RestartAfter, NoRestart>;

struct PastAttempt {
  std::chrono::nanoseconds run_time{0};
  wire::Progress progress = wire::Progress::unknown;  // of all nodes
};

// `attempts`: all so far. One was in vain if no rank of it finished a step; of a program without the runtime, whose
// steps cannot be seen, if it failed within limits::kProgressTime. Attempts in vain in a row double the delay, from
// limits::kRestartDelay to limits::kLongestRestartDelay, and after limits::kAttemptsWithoutProgress the job is given
// up.
RestartDecision decide_restart(std::span<const PastAttempt> attempts, int max_restarts);

}  // namespace ddp::launcher
