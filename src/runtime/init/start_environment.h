// StartEnvironment holds the Environment of this process, and values about its start that only init() needs.
#pragma once

#include <ddp/environment.h>

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

}  // namespace ddp::internal
