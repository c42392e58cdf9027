// Decides whether a job whose attempt has failed is started again, and when. The function is pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "wire/control_message.h"

namespace ddp::launcher {

struct RestartAfter {
  std::chrono::milliseconds delay;
  int number = 0;  // number of this restart of --max-restarts; 0 if it does not count
};

struct NoRestart {
  std::string reason;        // for the user, as in "given up after 2 restarts"; empty if no restart is expected
  bool is_repeated = false;  // another attempt would fail with the same error at the same step
};

using RestartDecision = std::variant<RestartAfter, NoRestart>;

struct PastAttempt {
  std::chrono::nanoseconds run_time{0};
  wire::Progress progress = wire::Progress::unknown;  // progress of all nodes
  wire::CauseCode code = wire::CauseCode::program;
  std::string error = {};                           // see wire::Cause
  std::optional<std::int64_t> step = std::nullopt;  // the newest one that a rank has finished, if it is known
};

// Adds an attempt to what the attempts before it mean.
wire::RestartHistory add(wire::RestartHistory history, const PastAttempt& attempt);

// At most `max_restarts` of the restarts count (counts_as_restart()). If the last
// two failed with the same error at the same step, there is no restart. An attempt was in vain if none of its ranks
// finished a step. If the program does not use the runtime, its steps cannot be seen. Such an attempt was in vain if it
// failed within limits::kProgressTime. After an attempt that was not, there is no delay. Each further attempt in vain
// triples it, from limits::kRestartDelay to limits::kLongestRestartDelay. After limits::kAttemptsWithoutProgress of
// them in a row, the job is given up.
RestartDecision decide_restart(const wire::RestartHistory& history, int max_restarts);

// Returns a text such as "restart 1 of 3 in 0.1 s".
std::string describe(const RestartAfter& restart, int max_restarts);

}  // namespace ddp::launcher
