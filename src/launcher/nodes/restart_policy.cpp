#include "launcher/nodes/restart_policy.h"

#include <algorithm>

#include "base/text.h"
#include "launcher/limits.h"

namespace ddp::launcher {

RestartDecision decide_restart(const std::vector<std::chrono::nanoseconds>& run_times, int max_restarts) {
  if (max_restarts == 0) return NoRestart{};
  const auto restarts = static_cast<int>(run_times.size()) - 1;
  if (restarts >= max_restarts) return NoRestart{"given up after " + base::counted(restarts, "restart")};
  const auto last_progress = std::find_if(run_times.rbegin(), run_times.rend(),
                                          [](auto run_time) { return run_time >= limits::kProgressTime; });
  const auto in_vain = static_cast<int>(last_progress - run_times.rbegin());
  if (in_vain >= limits::kAttemptsWithoutProgress) {
    return NoRestart{"given up: " + std::to_string(in_vain) + " attempts in a row failed within " +
                     base::human_duration(limits::kProgressTime) + " of their start (" +
                     base::counted(max_restarts - restarts, "restart") + " of --max-restarts left)"};
  }
  std::chrono::milliseconds delay = limits::kRestartDelay;
  for (int i = 1; i < in_vain; ++i)
    delay = std::min<std::chrono::milliseconds>(2 * delay, limits::kLongestRestartDelay);
  return RestartAfter{delay};
}

}  // namespace ddp::launcher
