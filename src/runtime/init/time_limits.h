// How long ranks wait for each other: a pure function of what the program asks for and of who watches it.
#pragma once

#include <ddp/init.h>

#include <chrono>
#include <optional>

namespace ddp::internal {

struct TimeLimits {
  std::chrono::milliseconds connecting{0};  // the ranks, once all have come
  std::chrono::milliseconds store{0};       // each call of the store
  // Of operations without one of their own; nothing: as for connecting.
  std::optional<std::chrono::milliseconds> operation;
  // For others to come to a group; nothing: as the store's calls.
  std::optional<std::chrono::milliseconds> coming;
};

// `is_watched`: the launcher sees for whom a rank waits, and ends the job if that is a hang. So nothing that the
// program has not set is limited here.
TimeLimits time_limits(const InitOptions& options, bool is_watched);

}  // namespace ddp::internal
