// Parses the text of InitOptions::init_method, and reaches the store that it names.
#pragma once

#include <ddp/store.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "runtime/init/start_environment.h"

namespace ddp::internal {

struct InitMethod {
  enum class Kind { environment, tcp, file };
  Kind kind = Kind::environment;
  std::string host;  // only for tcp
  std::uint16_t port = 0;
  std::string path;  // only for file
  std::optional<int> rank;
  std::optional<int> world_size;
};

// Parses "env://", "tcp://host:port?rank=R&world_size=N" or "file:///path?…". Throws invalid_argument with a message
// that names the valid forms.
InitMethod parse_init_method(const std::string& text);

// Returns `environment` with rank and world size from the method, else from `rank` and `world_size` (of InitOptions),
// else unchanged. Throws invalid_argument if the first two differ, if a value is given nowhere, or if they do not fit
// together.
StartEnvironment with_ranks(const InitMethod& method, std::optional<int> rank, std::optional<int> world_size,
                            StartEnvironment environment);

// Provides the store of the method. Rank 0 serves it if no launcher does. A store that an earlier run has left is
// refused. If no address is named, the ranks of mpirun exchange one through MPI.
std::shared_ptr<Store> reach_store(const InitMethod& method, const StartEnvironment& environment,
                                   std::chrono::milliseconds timeout);

// Returns when all ranks of this run, and no process of another run, have joined the store in the file `path`.
// Otherwise it throws `mismatch` on every rank. `process` differs between processes.
void meet_in_file(Store& store, const std::string& path, const StartEnvironment& environment,
                  const std::string& process);

}  // namespace ddp::internal
