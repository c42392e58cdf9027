// Runs a plan to the end of the job: builds guardian, supervisor and their parts, and connects them. It contains no
// logic.
#pragma once

#include "base/exit_status.h"
#include "launcher/log/log.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/remote/controller_link.h"

namespace ddp::launcher {

// Runs the job. The result is how this process should end. `controller` is the connection to the launcher on another
// node that has started this one, or null if there is none.
base::ExitStatus launch(const LaunchPlan& plan, Log& log, ControllerLink* controller = nullptr);

}  // namespace ddp::launcher
