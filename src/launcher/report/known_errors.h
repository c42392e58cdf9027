// What to try against errors of Python programs that have to do with how they were started. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/plan/launch_plan.h"

namespace ddp::launcher {

// A sentence for the summary; empty if the worker's last lines show none of these errors.
std::string what_to_try(const std::vector<std::string>& last_lines, const LaunchPlan& plan);

}  // namespace ddp::launcher
