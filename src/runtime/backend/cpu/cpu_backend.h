// The cpu backend: collectives on host memory.
#pragma once

#include <memory>

#include "runtime/backend/backend.h"
#include "runtime/backend/cpu/near_memory.h"

namespace ddp {

// Between ranks of one machine through memory that they share: one that reads another's data where they lie if they are
// in memory from allocate() or in the same process; that copies them once (process_vm_readv) if the system allows it;
// else through staging buffers. Results have the same bits whichever way is taken. Between machines see machines.h.
// options.host: the ranks have met.
std::unique_ptr<Backend> make_cpu_backend(const BackendOptions& options, std::shared_ptr<Store> store);

// Between the ranks of options.host alone. For tests: no better way than `best`.
std::unique_ptr<Backend> make_inside_backend(const BackendOptions& options, NearMemory::Way best);

}  // namespace ddp
