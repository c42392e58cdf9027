// Loads a profiler plug-in into the fake NCCL by NCCL's rules, and calls it before each operation.
#pragma once

#include <cstddef>

#include "support/fake_gpu/fake_comm.h"

namespace fake_gpu {

// Reads NCCL_PROFILER_PLUGIN, and FAKE_NCCL_PROFILER for the version of the interface (6 by default). `id` is the same
// on all ranks of the communicator.
void begin_profile(Comm& comm, std::uint64_t id);
void end_profile(Comm& comm);
void profile_collective(Comm& comm, const char* function, std::size_t count, int type, int root, void* stream);
void profile_transfer(Comm& comm, const char* function, std::size_t count, int type, int peer, void* stream);

}  // namespace fake_gpu
