// Runs a job whose launchers run on other hosts, each behind an ssh process of this launcher.
#pragma once

#include "base/exit_status.h"
#include "launcher/run/remote/host_plan.h"
#include "launcher/start/log/log.h"

namespace ddp::launcher {

// Runs the job. The result is how this process should end.
base::ExitStatus run_host_job(const HostPlan& plan, Log& log);

}  // namespace ddp::launcher
