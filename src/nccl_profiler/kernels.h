// Follows the kernels of collectives: on which channels of the GPU they have begun and ended. This costs time, and
// shows only what was launched since, so it is done if the attempt before this one hung. All functions are for any
// thread, allocate nothing, and wait for no other communicator.
#pragma once

#include <cstdint>

#include "nccl_profiler/communicators.h"

namespace ddp::nccl_profiler {

// Returns whether the kernels of new communicators are to be followed.
bool follows_kernels();

// NCCL keeps this for a collective, and passes it with what happens to its kernel. It is null for the number 0, and if
// the communicator's kernels are not followed. A handle of a communicator that is gone changes nothing.
void* handle_of(const Communicator& communicator, std::uint64_t number);

void queue_kernel(void* handle, std::uint8_t channels);  // it is on the stream, and will run on so many channels
void begin_kernel(void* handle);                         // on one of them
void end_kernel(void* handle);                           // on one of them

}  // namespace ddp::nccl_profiler
