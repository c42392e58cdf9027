// Determines how long ranks wait for each other. It depends only on the program's options and on whether the launcher
// watches.
#pragma once

#include <ddp/init.h>

#include <chrono>
#include <optional>

namespace ddp::internal {

struct TimeLimits {
  std::chrono::milliseconds connecting{0};  // limit for connecting the ranks, once all have joined
  std::chrono::milliseconds store{0};       // limit for each call of the store
  // This limit applies to operations without their own limit. If it is not set, `connecting` applies.
  std::optional<std::chrono::milliseconds> operation;
  // Ranks wait this long for others to join a group. If it is not set, they wait as long as the store's calls.
  std::optional<std::chrono::milliseconds> coming;
};

// If `is_watched` is set, the launcher sees for which rank a rank waits, and ends the job if that is a hang. So limits
// that the program has not set do not apply.
TimeLimits time_limits(const InitOptions& options, bool is_watched);

}  // namespace ddp::internal
