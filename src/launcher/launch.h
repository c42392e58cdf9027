// From a plan to the end of the job: builds guardian, supervisor and their parts and connects them. No logic.
#pragma once

#include "base/exit_status.h"
#include "launcher/log/log.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/remote/controller_link.h"

namespace ddp::launcher {

// Runs the job. The result is how this process should end. `controller`: the launcher on another machine that has
// started this one; null: none has.
base::ExitStatus launch(const LaunchPlan& plan, Log& log, ControllerLink* controller = nullptr);

}  // namespace ddp::launcher
