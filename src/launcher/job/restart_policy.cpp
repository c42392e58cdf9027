#include "launcher/job/restart_policy.h"

#include <algorithm>

#include "base/text.h"
#include "launcher/job/cause_code.h"
#include "launcher/limits.h"

namespace ddp::launcher {
namespace {

bool was_in_vain(const PastAttempt& attempt) {
  if (attempt.progress != wire::Progress::unknown) return attempt.progress == wire::Progress::none;
  return attempt.run_time < limits::kProgressTime;
}

bool is_same_failure(const PastAttempt& one, const PastAttempt& other) {
  return !one.error.empty() && one.error == other.error && one.step && one.step == other.step;
}

}  // namespace

int restarts_left(std::span<const PastAttempt> attempts, int max_restarts) {
  const auto counted =
      std::ranges::count_if(attempts, [](const PastAttempt& attempt) { return counts_as_restart(attempt.code); });
  return max_restarts - static_cast<int>(counted);
}

RestartDecision decide_restart(std::span<const PastAttempt> attempts, int max_restarts) {
  if (max_restarts == 0) return NoRestart{};
  const int left = restarts_left(attempts, max_restarts);
  const std::string unused = " (" + base::counted(left + (counts_as_restart(attempts.back().code) ? 1 : 0), "restart") +
                             " of --max-restarts left)";
  if (attempts.size() > 1 && is_same_failure(attempts.back(), attempts[attempts.size() - 2])) {
    return NoRestart{"ddplaunch gave up: two attempts failed with the same error after step " +
                         std::to_string(*attempts.back().step) + ", so another one would, too" + unused,
                     true};
  }
  if (left < 0) return NoRestart{"ddplaunch gave up after " + base::counted(max_restarts, "restart")};
  const auto last_progress = std::find_if_not(attempts.rbegin(), attempts.rend(), was_in_vain);
  const auto in_vain = static_cast<int>(last_progress - attempts.rbegin());
  if (in_vain >= limits::kAttemptsWithoutProgress) {
    const bool is_seen = attempts.back().progress != wire::Progress::unknown;
    return NoRestart{"ddplaunch gave up: " + std::to_string(in_vain) + " attempts in a row failed " +
                     (is_seen ? "before they finished a step"
                              : "within " + base::human_duration(limits::kProgressTime) + " of their start") +
                     unused};
  }
  const int number = counts_as_restart(attempts.back().code) ? max_restarts - left : 0;
  if (in_vain == 0) return RestartAfter{std::chrono::milliseconds(0), number};
  std::chrono::milliseconds delay = limits::kRestartDelay;
  for (int i = 1; i < in_vain; ++i)
    delay = std::min<std::chrono::milliseconds>(3 * delay, limits::kLongestRestartDelay);
  return RestartAfter{delay, number};
}

std::string describe(const RestartAfter& restart, int max_restarts) {
  const std::string when = restart.delay.count() == 0 ? " at once" : " in " + base::human_duration(restart.delay);
  if (restart.number == 0) return "restart" + when + "; the loss of a node does not count in --max-restarts";
  return "restart " + std::to_string(restart.number) + " of " + std::to_string(max_restarts) + when;
}

}  // namespace ddp::launcher
