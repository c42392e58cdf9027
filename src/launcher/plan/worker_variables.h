// The environment variables that a worker gets on top of what the launcher has. A pure function; the meaning of each is
// in docs/reference/environment.md.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "launcher/plan/launch_plan.h"

namespace ddp::launcher {

// What the plan alone does not know about a worker.
struct WorkerPosition {
  int local_rank = 0;
  int first_rank = 0;  // global rank of local rank 0
  int world_size = 1;
  int node_rank = 0;
  int node_count = 1;
  std::string master_addr;
  std::uint16_t master_port = 0;
  std::string interface;  // that leads to the other nodes; empty: not known, or there are none
  std::string error_file;
  int attempt = 0;           // restarts so far
  std::string last_failure;  // why the attempt before this one ended, in a line; empty in the first
};

// Those that are set to the interface that leads to the other nodes: the user has not.
std::vector<std::string> interface_variables(const LaunchPlan& plan, const std::string& interface);

std::map<std::string, std::string> worker_variables(const LaunchPlan& plan, const WorkerPosition& position);

}  // namespace ddp::launcher
