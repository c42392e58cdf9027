// WorkerSpec: what is executed for one worker. Made by a pure function of plan and assignment.
#pragma once

#include <string>
#include <vector>

#include "launcher/plan/launch_plan.h"
#include "launcher/rendezvous/rendezvous.h"

namespace ddp::launcher {

struct WorkerSpec {
  int rank = 0;
  int attempt = 0;
  std::string program;                   // path
  std::vector<std::string> arguments;    // argv, complete: macros replaced, --local_rank inserted
  std::vector<std::string> environment;  // "NAME=value", complete
  std::vector<int> cpus;                 // to run on; empty: all
  std::vector<int> memory_nodes;         // NUMA nodes to prefer; empty: as the kernel likes
  std::string core = "inherit";          // RLIMIT_CORE: "inherit", "off" or "unlimited"
  bool reads_stdin = false;              // our standard input; otherwise it has none
};

// Which of the node's workers, in which attempt.
struct WorkerContext {
  int local_rank = 0;
  std::string error_file;
  int attempt = 0;           // 0 for the first
  std::string last_failure;  // why the attempt before this one ended, in a line; empty in the first
};

// The worker's environment is the launcher's own plus torchrun's variables and ours; docs/reference/environment.md.
WorkerSpec make_worker_spec(const LaunchPlan& plan, const NodeAssignment& assignment, const WorkerContext& context);

}  // namespace ddp::launcher
