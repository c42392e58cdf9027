// WorkerSpec: what is executed for one worker. Made by a pure function of plan and assignment.
#pragma once

#include <string>
#include <vector>

#include "launcher/plan/launch_plan.h"
#include "launcher/rendezvous/rendezvous.h"

namespace ddp::launcher {

struct WorkerSpec {
  std::string program;                   // path
  std::vector<std::string> arguments;    // as typed, the program first
  std::vector<std::string> environment;  // "NAME=value", complete
};

// The worker's environment is the launcher's own plus torchrun's variables and ours; docs/reference/environment.md.
WorkerSpec make_worker_spec(const LaunchPlan& plan, const NodeAssignment& assignment, int local_rank,
                            const std::string& error_file);

}  // namespace ddp::launcher
