// Runs a plan to the end of the job: builds guardian, supervisor and their parts, and connects them. It contains no
// logic.
#pragma once

#include "base/exit_status.h"
#include "launcher/run/remote/controller_link.h"
#include "launcher/start/log/log.h"
#include "launcher/start/plan/launch_plan.h"

namespace ddp::launcher {

// Runs the job. The result is how this process should end. `controller` is the connection to the launcher on another
// node that has started this one, or null if there is none.
base::ExitStatus launch(const LaunchPlan& plan, Log& log, ControllerLink* controller = nullptr);

}  // namespace ddp::launcher
