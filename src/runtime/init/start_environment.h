// StartEnvironment holds the Environment of this process, and values about its start that only init() needs. It also
// determines how long ranks wait for each other.
#pragma once

#include <ddp/environment.h>
#include <ddp/init.h>

#include <chrono>
#include <optional>

namespace ddp::internal {

struct StartEnvironment : Environment {
  bool under_mpirun = false;     // ranks come from Open MPI's variables
  bool has_ranks = false;        // rank and world size were given in some way
  bool lacks_rank = false;       // WORLD_SIZE is not 1, but RANK is not set
  bool launcher_serves = false;  // TORCHELASTIC_USE_AGENT_STORE is "True": rank 0 serves no store
  bool is_watched = false;       // DDP_WATCHED is 1: the launcher ends a job that hangs
};

// Throws the same errors as Environment::from_lookup().
StartEnvironment read_environment(const Environment::Lookup& lookup);

// Returns the start environment of this process. A program's own Environment replaces the ranks and the address of the
// variables.
StartEnvironment start_environment(const std::optional<Environment>& programs);

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
