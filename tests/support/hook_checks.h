// These checks hold for every hook that compresses.
#pragma once

#include <ddp/extension/communication_hook.h>

#include <functional>
#include <memory>

#include "support/placed_memory.h"

namespace ddp::test {

using MakeHook = std::function<std::shared_ptr<CommunicationHook>()>;

// Compares the gradients with the plain mean after one step and, as the average, after many steps. A hook that feeds
// errors back keeps the second distance small. The hook may send this share of the bytes.
void check_hook(const MakeHook& make, double first_error, double late_error, double byte_share,
                const MemoryUnderTest& memory = host_memory());

// Returns the limit for the average of many steps in host memory, for the fewer steps in GPU memory.
inline double late(const MemoryUnderTest& memory, double late_error) {
  return memory.device == DeviceType::cuda ? 10 * late_error : late_error;
}

// Compares the gradients of both memories.
void check_both_memories(const MakeHook& make, double tolerance);

// Checks that an overflow affects only its own step.
void check_overflow(const MakeHook& make, const MemoryUnderTest& memory);

}  // namespace ddp::test
