// What the plan for other hosts must know of this machine: the only file of the room that looks.
#pragma once

#include "launcher/remote/host_plan.h"

namespace ddp::launcher {

ControllerFacts gather_controller_facts(const Options& options, const std::vector<std::string>& environment);

}  // namespace ddp::launcher
