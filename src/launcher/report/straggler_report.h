// For whom the ranks waited, for people.
#pragma once

#include <string>
#include <vector>

#include "launcher/watchdog/straggler_table.h"

namespace ddp::launcher {

// A line for each rank that was waited for, at most ten, under a headline. Empty if nothing is known.
std::vector<std::string> straggler_table_lines(const StragglerReport& report);

// For the end of a job: a sentence on the rank for which the others waited most, if that is worth one: a hundredth of
// the time, a second at least, and twice as long as for the next one. Else empty.
std::string straggler_remark(const StragglerReport& report);

}  // namespace ddp::launcher
