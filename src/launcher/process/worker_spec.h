// WorkerSpec: what is executed for one worker. Made by a pure function of plan and placement.
#pragma once

#include <string>
#include <vector>

#include "launcher/plan/worker_variables.h"

namespace ddp::launcher {

struct WorkerSpec {
  int rank = 0;
  int attempt = 0;
  std::string program;                   // path
  std::vector<std::string> arguments;    // argv, complete: macros replaced, --local_rank inserted
  std::vector<std::string> environment;  // "NAME=value", complete
  std::vector<int> cpus;                 // to run on; empty: all
  std::vector<int> memory_nodes;         // NUMA nodes to prefer; empty: as the kernel likes
  CoreDumps core = CoreDumps::inherit;   // RLIMIT_CORE
  bool reads_stdin = false;              // our standard input; otherwise it has none
};

// The worker's environment is the launcher's own plus torchrun's variables and ours; docs/reference/environment.md.
WorkerSpec make_worker_spec(const LaunchPlan& plan, const Placement& placement, const WorkerContext& worker);

}  // namespace ddp::launcher
