// StartEnvironment: the Environment of this process, and what only init() needs of how it was started.
#pragma once

#include <ddp/environment.h>

namespace ddp::internal {

struct StartEnvironment : Environment {
  bool under_mpirun = false;     // ranks come from Open MPI's variables
  bool has_ranks = false;        // rank and world size were given, by whomever
  bool lacks_rank = false;       // WORLD_SIZE says that there are others, and RANK is not set
  bool launcher_serves = false;  // TORCHELASTIC_USE_AGENT_STORE is "True": rank 0 serves no store
  bool is_watched = false;       // DDP_WATCHED: the launcher ends a job that hangs
};

// Throws as Environment::from_lookup().
StartEnvironment read_environment(const Environment::Lookup& lookup);

// This process's, in which a program's own Environment takes the place of what the variables say of ranks and address.
StartEnvironment start_environment(const std::optional<Environment>& programs);

}  // namespace ddp::internal
