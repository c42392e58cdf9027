// The cpu backend: collectives on host memory.
#pragma once

#include <memory>

#include "runtime/backend/backend.h"

namespace ddp::internal {

// Between ranks of one node through memory that they share: they read each other's data where they lie if they are
// in memory from allocate() or in the same process, else through staging buffers. Results have the same bits whichever
// way is taken. Between nodes see nodes.h. options.node_group: the ranks have met.
std::unique_ptr<Backend> make_cpu_backend(const BackendOptions& options, std::shared_ptr<Store> store);

// Between the ranks of options.node_group alone. `reads_near`: false, for tests, if all is to be staged.
std::unique_ptr<Backend> make_inside_backend(const BackendOptions& options, bool reads_near);

}  // namespace ddp::internal
