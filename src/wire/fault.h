// Fault: something that goes wrong in a worker on purpose, as --inject and DDP_INJECT write it. At a call of the
// worker's the runtime brings it about, at a time the launcher, whatever the program is.
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
  std::string operation;     // as in kOperationNames; empty: any collective
  std::uint64_t number = 0;  // of this rank's calls of that operation, from 1, in all its groups
  FaultKind kind = FaultKind::stop;
  std::chrono::milliseconds delay{0};
  int attempt = 0;  // after so many restarts
  // Since the start of the attempt; nothing: at a call.
  std::optional<std::chrono::milliseconds> after;

  friend bool operator==(const Fault&, const Fault&) = default;
};

// "rank=2,at=allreduce:100,kind=delay=5s", "rank=2,at=10s,kind=kill". Of a text that is none the failure says what is
// wrong and what can stand there.
base::Result<Fault> parse_fault(std::string_view text);

// Several, separated by spaces: the value of DDP_INJECT.
base::Result<std::vector<Fault>> parse_faults(std::string_view text);

}  // namespace ddp::wire
