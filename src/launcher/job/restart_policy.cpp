#include "launcher/job/restart_policy.h"

#include <algorithm>

#include "base/text.h"
#include "launcher/limits.h"

namespace ddp::launcher {
namespace {

bool was_in_vain(const PastAttempt& attempt) {
  if (attempt.progress != wire::Progress::unknown) return attempt.progress == wire::Progress::none;
  return attempt.run_time < limits::kProgressTime;
}

}  // namespace

RestartDecision decide_restart(std::span<const PastAttempt> attempts, int max_restarts) {
  if (max_restarts == 0) return NoRestart{};
  const auto restarts = static_cast<int>(attempts.size()) - 1;
  if (restarts >= max_restarts) return NoRestart{"ddplaunch gave up after " + base::counted(restarts, "restart")};
  const auto last_progress = std::find_if_not(attempts.rbegin(), attempts.rend(), was_in_vain);
  const auto in_vain = static_cast<int>(last_progress - attempts.rbegin());
  if (in_vain >= limits::kAttemptsWithoutProgress) {
    const bool is_seen = attempts.back().progress != wire::Progress::unknown;
    return NoRestart{"ddplaunch gave up: " + std::to_string(in_vain) + " attempts in a row failed " +
                     (is_seen ? "before they finished a step"
                              : "within " + base::human_duration(limits::kProgressTime) + " of their start") +
                     " (" + base::counted(max_restarts - restarts, "restart") + " of --max-restarts left)"};
  }
  if (in_vain == 0) return RestartAfter{std::chrono::milliseconds(0)};
  std::chrono::milliseconds delay = limits::kRestartDelay;
  for (int i = 1; i < in_vain; ++i)
    delay = std::min<std::chrono::milliseconds>(3 * delay, limits::kLongestRestartDelay);
  return RestartAfter{delay};
}

}  // namespace ddp::launcher
