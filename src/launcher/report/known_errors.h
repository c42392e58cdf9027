// Suggests remedies for errors of Python programs that depend on how they were started. The function is pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/plan/launch_plan.h"

namespace ddp::launcher {

// Returns a sentence for the summary, or an empty string if the worker's last lines show none of these errors.
std::string what_to_try(const std::vector<std::string>& last_lines, const LaunchPlan& plan);

}  // namespace ddp::launcher
