// The store of an init method: served by rank 0 itself where no launcher does, refused if an earlier run left it.
#pragma once

#include <ddp/store.h>

#include <chrono>
#include <memory>
#include <string>

#include "runtime/init/init_method.h"

namespace ddp::internal {

// Without a named place the ranks of mpirun tell each other one by MPI.
std::shared_ptr<Store> reach_store(const InitMethod& method, const StartEnvironment& environment,
                                   std::chrono::milliseconds timeout);

// All ranks of this run have come to the store that is kept in the file `path`, and nobody of another run, or it throws
// `mismatch` on every rank. `process` differs between processes.
void meet_in_file(Store& store, const std::string& path, const StartEnvironment& environment,
                  const std::string& process);

}  // namespace ddp::internal
