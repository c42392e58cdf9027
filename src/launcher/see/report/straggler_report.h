// Describes for which ranks the others waited, as text for people.
#pragma once

#include <string>
#include <vector>

#include "launcher/run/ranks/straggler_report.h"

namespace ddp::launcher {

// Returns a headline and a line for each rank that was waited for, at most ten. Returns no lines if nothing is known.
std::vector<std::string> straggler_table_lines(const StragglerReport& report);

// Returns a sentence for the end of a job about the rank for which the others waited most. Returns an empty string if
// the wait is not worth mentioning. It must be at least a hundredth of the time, one second, and twice the wait for the
// next rank.
std::string straggler_remark(const StragglerReport& report);

}  // namespace ddp::launcher
