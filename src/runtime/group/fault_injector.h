// FaultInjector: what DDP_INJECT wants to go wrong in this process, at the calls that it names. So users' tests can
// prove what they do about faults, and ours what we do.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "runtime/call/call.h"
#include "wire/fault.h"

namespace ddp::internal {

class FaultInjector {
 public:
  // Only faults of this attempt count. Throws invalid_argument for one at a time, which is the launcher's.
  FaultInjector(const std::vector<wire::Fault>& faults, int attempt);

  // Counts the call of this rank (its number in the job). The fault that is due at it. Any thread.
  std::optional<wire::Fault> due(int rank, Operation operation);

 private:
  struct Armed {
    wire::Fault fault;
    std::atomic<std::uint64_t> calls = 0;
  };
  std::deque<Armed> armed_;  // atomics stay where they are
};

// What is left to do for the caller.
enum class FaultOutcome : std::uint8_t {
  call,                // the call, which may be another one now
  skip,                // nothing: the call is not made
  call_barrier_first,  // a collective that the other ranks do not call comes before it
};

// Stops, ends or holds up this process, or changes the call, and says so on the standard error. Throws
// invalid_argument where the call cannot be changed in this way (a barrier has no shape).
FaultOutcome carry_out(const wire::Fault& fault, Call& call, int size);

}  // namespace ddp::internal
