// FaultInjector injects the faults that DDP_INJECT requests into this process, at the calls that it names. So users can
// test how their programs handle faults, and the project tests how the launcher and the runtime handle them.
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
  // Only faults of this attempt count. Throws invalid_argument if a fault is set for a time, because only the launcher
  // injects such faults.
  FaultInjector(const std::vector<wire::Fault>& faults, int attempt);

  // Counts the call of this rank (its number in the job). Returns the fault to inject at this call, if there is one.
  // Any thread may call it.
  std::optional<wire::Fault> due(int rank, Operation operation);

 private:
  struct Armed {
    wire::Fault fault;
    std::atomic<std::uint64_t> calls = 0;
  };
  std::deque<Armed> armed_;  // a deque, because atomics cannot be moved
};

// Tells the caller how to continue.
enum class FaultOutcome : std::uint8_t {
  call,                // make the call, which may have been changed
  skip,                // do not make the call
  call_barrier_first,  // first call a barrier that the other ranks do not call
};

// Stops, ends or delays this process, or changes the call, and reports this on standard error. Throws invalid_argument
// if the call cannot be changed in this way (a barrier has no shape).
FaultOutcome carry_out(const wire::Fault& fault, Call& call, int size);

}  // namespace ddp::internal
