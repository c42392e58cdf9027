// The environment variables that a worker gets on top of what the launcher has. A pure function; the meaning of each is
// in docs/reference/environment.md.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "launcher/plan/launch_plan.h"
#include "launcher/plan/placement.h"

namespace ddp::launcher {

// Which of the node's workers.
struct WorkerContext {
  int local_rank = 0;
  std::string error_file;
  std::string last_failure;     // why the attempt before this one ended, in a line; empty in the first
  std::string torch_file = {};  // begins the names of files in which its PyTorch shows its collectives
};

// Those that are set to the interface that leads to the other nodes: the user has not.
std::vector<std::string> interface_variables(const LaunchPlan& plan, const std::string& interface);

std::map<std::string, std::string> worker_variables(const LaunchPlan& plan, const Placement& placement,
                                                    const WorkerContext& worker);

}  // namespace ddp::launcher
