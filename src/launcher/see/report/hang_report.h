// Builds the console's report on a job that makes no progress, and on ranks for which the others waited.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/run/ranks/straggler_report.h"
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

// Returns a headline and a line for each rank that was waited for, at most ten. Returns no lines if nothing is known.
std::vector<std::string> straggler_table_lines(const StragglerReport& report);

// Returns a sentence for the end of a job about the rank for which the others waited most. Returns an empty string if
// the wait is not worth mentioning. It must be at least a hundredth of the time, one second, and twice the wait for the
// next rank.
std::string straggler_remark(const StragglerReport& report);

}  // namespace ddp::launcher
