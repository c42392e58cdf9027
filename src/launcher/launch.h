// Runs a plan to the end of the job: builds guardian, supervisor and their parts, and connects them. It contains no
// logic.
#pragma once

#include "base/exit_status.h"
#include "launcher/run/remote/controller_link.h"
#include "launcher/start/log/log.h"
#include "launcher/start/plan/launch_plan.h"
#include "wire/control_message.h"

namespace ddp::launcher {

struct LaunchEnd {
  base::ExitStatus status;  // how this process should end
  wire::CauseCode cause = wire::CauseCode::none;
  EarlierAttempts attempts;  // their events only if the transport is the cause
};

// Runs the job. `controller` is the connection to the launcher on another
// node that has started this one, or null if there is none.
LaunchEnd launch(const LaunchPlan& plan, Log& log, ControllerLink* controller = nullptr);

}  // namespace ddp::launcher
