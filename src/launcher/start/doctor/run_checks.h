// Runs the checks, each in a process of its own. A check that hangs, even in the kernel, or crashes is a finding, and
// the others still end in time.
#pragma once

#include <chrono>
#include <span>

#include "launcher/start/doctor/checks.h"

namespace ddp::launcher::doctor {

// What is found if no process can be started for a check.
inline constexpr const char* kNoProcess = "no process could be started for it";

// Returns the findings in the order of `checks`, after at most `limit`. The calling process must have one thread.
Findings run_checks(std::span<const Check> checks, const Node& node, std::chrono::milliseconds limit);

}  // namespace ddp::launcher::doctor
