// Fault describes a fault to inject into a worker, as --inject and DDP_INJECT specify it. The runtime injects a fault
// at a call of the worker. The launcher injects a fault at a time, for any program.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ddp::wire {

enum class FaultKind : std::uint8_t { stop, skip, swap, shape, dtype, kill, exit0, delay, mutex, spin };

inline constexpr std::array<std::string_view, 10> kFaultNames = {"stop", "skip",  "swap",  "shape", "dtype",
                                                                 "kill", "exit0", "delay", "mutex", "spin"};

struct Fault {
  int rank = 0;
  std::string operation;     // as in kOperationNames; empty for any collective
  std::uint64_t number = 0;  // the call's number among this rank's calls of that operation in all its groups, from 1
  FaultKind kind = FaultKind::stop;
  std::chrono::milliseconds delay{0};
  int attempt = 0;  // the attempt after so many restarts
  // Gives the time since the start of the attempt, or std::nullopt for a fault at a call.
  std::optional<std::chrono::milliseconds> after;

  friend bool operator==(const Fault&, const Fault&) = default;
};

// Parses text such as "rank=2,at=allreduce:100,kind=delay=5s" or "rank=2,at=10s,kind=kill". For other text the failure
// says what is wrong and which values are possible.
base::Result<Fault> parse_fault(std::string_view text);

// Parses several faults, separated by spaces: the value of DDP_INJECT.
base::Result<std::vector<Fault>> parse_faults(std::string_view text);

}  // namespace ddp::wire
