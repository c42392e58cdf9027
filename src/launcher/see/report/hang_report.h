// Builds the console's report on a job that makes no progress.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/run/watchdog/hang_news.h"

namespace ddp::launcher {

// Returns the headline, what the culprits are doing (for a hang: what every rank is doing), and what will follow. There
// are at most 25 lines. `now` is CLOCK_MONOTONIC in nanoseconds.
std::vector<std::string> hang_report(const HangNews& news, std::uint64_t now);

// Returns what the ranks that called different collectives called before and after that. Returns no lines if it is not
// known.
std::vector<std::string> difference_lines(const Verdict& verdict);

// Returns whether a stack has no Python lines because py-spy was not found.
bool lacks_py_spy(const Evidence& evidence);

}  // namespace ddp::launcher
