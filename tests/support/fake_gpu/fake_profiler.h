// Loads a profiler plug-in into the fake NCCL by NCCL's rules, and calls it before each operation.
#pragma once

#include <cstddef>

#include "support/fake_gpu/fake_comm.h"

namespace fake_gpu {

// Reads NCCL_PROFILER_PLUGIN, and FAKE_NCCL_PROFILER for the version of the interface (6 by default). `id` is the same
// on all ranks of the communicator.
void begin_profile(Comm& comm, std::uint64_t id);
void end_profile(Comm& comm);
// Returns what NCCL keeps for the collective, to which its kernel belongs.
void* profile_collective(Comm& comm, const char* function, std::size_t count, int type, int root, void* stream);
void profile_transfer(Comm& comm, const char* function, std::size_t count, int type, int peer, void* stream);
void* begin_kernel(Comm& comm, void* collective);
void hang_if_asked(Comm& comm);
void end_kernel(Comm& comm, void* kernel);
// Calls `run` as the kernel of a collective. If FAKE_NCCL_HANG is "RANK:NUMBER:ATTEMPTS", the kernel of this collective
// of world rank RANK never ends in the first ATTEMPTS attempts of the job, although all ranks have called it.
template <typename Run>
void profile_kernel(Comm& comm, void* collective, Run&& run) {
  void* const kernel = begin_kernel(comm, collective);
  run();
  hang_if_asked(comm);
  end_kernel(comm, kernel);
}

}  // namespace fake_gpu
