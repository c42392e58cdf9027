// Gathers what the plan for other hosts must know about this node. In this component, only this file pair reads such
// facts.
#pragma once

#include "launcher/run/remote/host_plan.h"

namespace ddp::launcher {

ControllerFacts gather_controller_facts(const Options& options, const std::vector<std::string>& environment);

}  // namespace ddp::launcher
