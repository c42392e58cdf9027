#include "launcher/run/job/restart_policy.h"

#include <algorithm>

#include "base/text.h"
#include "launcher/limits.h"
#include "launcher/run/job/cause_code.h"

namespace ddp::launcher {
namespace {

bool was_in_vain(const PastAttempt& attempt) {
  if (attempt.progress != wire::Progress::unknown) return attempt.progress == wire::Progress::none;
  return attempt.run_time < limits::kProgressTime;
}

}  // namespace

wire::RestartHistory add(wire::RestartHistory history, const PastAttempt& attempt) {
  history.last_counts = counts_as_restart(attempt.code);
  history.last_is_seen = attempt.progress != wire::Progress::unknown;
  history.counted += history.last_counts ? 1 : 0;
  history.in_vain = was_in_vain(attempt) ? history.in_vain + 1 : 0;
  const std::int64_t step = attempt.step.value_or(-1);
  history.is_repeated =
      !attempt.error.empty() && step >= 0 && attempt.error == history.last_error && step == history.last_step;
  history.last_error = attempt.error;
  history.last_step = step;
  return history;
}

RestartDecision decide_restart(const wire::RestartHistory& history, int max_restarts) {
  if (max_restarts == 0) return NoRestart{};
  const int left = max_restarts - history.counted;
  const std::string unused =
      " (" + base::counted(left + (history.last_counts ? 1 : 0), "restart") + " of --max-restarts left)";
  if (history.is_repeated) {
    return NoRestart{"ddplaunch gave up: two attempts failed with the same error after step " +
                         std::to_string(history.last_step) + ", so another one would, too" + unused,
                     true};
  }
  if (left < 0) return NoRestart{"ddplaunch gave up after " + base::counted(max_restarts, "restart")};
  if (history.in_vain >= limits::kAttemptsWithoutProgress) {
    return NoRestart{"ddplaunch gave up: " + std::to_string(history.in_vain) + " attempts in a row failed " +
                     (history.last_is_seen
                          ? "before they finished a step"
                          : "within " + base::human_duration(limits::kProgressTime) + " of their start") +
                     unused};
  }
  const int number = history.last_counts ? max_restarts - left : 0;
  if (history.in_vain == 0) return RestartAfter{std::chrono::milliseconds(0), number};
  std::chrono::milliseconds delay = limits::kRestartDelay;
  for (int i = 1; i < history.in_vain; ++i)
    delay = std::min<std::chrono::milliseconds>(3 * delay, limits::kLongestRestartDelay);
  return RestartAfter{delay, number};
}

std::string describe(const RestartAfter& restart, int max_restarts) {
  const std::string when = restart.delay.count() == 0 ? " at once" : " in " + base::human_duration(restart.delay);
  if (restart.number == 0) return "restart" + when + "; the loss of a node does not count in --max-restarts";
  return "restart " + std::to_string(restart.number) + " of " + std::to_string(max_restarts) + when;
}

}  // namespace ddp::launcher
