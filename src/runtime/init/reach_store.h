// Provides the store of an init method. Rank 0 serves it if no launcher does. A store that an earlier run has left is
// refused.
#pragma once

#include <ddp/store.h>

#include <chrono>
#include <memory>
#include <string>

#include "runtime/init/init_method.h"

namespace ddp::internal {

// If no address is named, the ranks of mpirun exchange one through MPI.
std::shared_ptr<Store> reach_store(const InitMethod& method, const StartEnvironment& environment,
                                   std::chrono::milliseconds timeout);

// Returns when all ranks of this run, and no process of another run, have joined the store in the file `path`.
// Otherwise it throws `mismatch` on every rank. `process` differs between processes.
void meet_in_file(Store& store, const std::string& path, const StartEnvironment& environment,
                  const std::string& process);

}  // namespace ddp::internal
