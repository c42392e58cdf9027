// Says whether the workers of a plan can be forked from a process that has imported modules
// (docs/development/decisions/0073-workers-are-forked-from-an-interpreter-that-has-imported.md). It is pure.
#pragma once

#include <string>

#include "launcher/facts/node_facts.h"
#include "launcher/plan/launch_plan.h"

namespace ddp::launcher {

// Returns why the workers cannot be forked, without a full stop, or an empty string. `python` describes the file that a
// worker executes.
std::string no_preload_reason(const LaunchPlan& plan, const ProgramFacts& python);

}  // namespace ddp::launcher
