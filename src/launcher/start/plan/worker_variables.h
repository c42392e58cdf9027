// Determines the environment variables that a worker gets in addition to the launcher's own. The functions are pure.
// docs/reference/environment.md explains the variables.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "launcher/start/plan/launch_plan.h"
#include "launcher/start/plan/placement.h"

namespace ddp::launcher {

// Identifies one of the node's workers.
struct WorkerContext {
  int local_rank = 0;
  std::string error_file;
  std::string last_failure;     // why the previous attempt ended, in one line; empty in the first attempt
  std::string torch_file = {};  // prefix of the files in which its PyTorch shows its collectives
};

// Returns the variables that are set to the interface that leads to the other nodes, because the user has not set them.
std::vector<std::string> interface_variables(const LaunchPlan& plan, const std::string& interface);

// Returns whether the programs of this node may keep their state in memory.
bool keeps_states(const LaunchPlan& plan);

std::map<std::string, std::string> worker_variables(const LaunchPlan& plan, const Placement& placement,
                                                    const WorkerContext& worker);

}  // namespace ddp::launcher
