// Says whether the workers of a plan can be forked from a process that has imported modules
// (docs/development/decisions/0073-workers-are-forked-from-an-interpreter-that-has-imported.md). It is pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/start/plan/launch_plan.h"

namespace ddp::launcher {

// Returns why the workers cannot be forked, without a full stop, or an empty string.
std::string no_preload_reason(const LaunchPlan& plan);

// Returns a command that starts the workers' Python with no program. Only a plan whose workers can be forked has one.
std::vector<std::string> python_probe(const LaunchPlan& plan);

}  // namespace ddp::launcher
