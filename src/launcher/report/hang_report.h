// What the console is told of a job that does not go on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/watchdog/hang_detector.h"

namespace ddp::launcher {

// The headline, what the culprits are at (of a hang: what every rank is at), and what will follow; at most 25 lines.
// `now`: CLOCK_MONOTONIC, nanoseconds.
std::vector<std::string> hang_report(const HangNews& news, std::uint64_t now);

// Of ranks that called different things what they called, side by side; else nothing.
std::vector<std::string> difference_lines(const Verdict& verdict);

// Whether a stack of Python has no lines because py-spy was not found.
bool lacks_py_spy(const Evidence& evidence);

}  // namespace ddp::launcher
