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
  std::vector<int> cpus;                 // it runs on these only; empty: where the launcher may
  std::vector<int> memory_nodes;         // its memory comes from these while they have some; empty: from anywhere
  std::string core = "inherit";  // RLIMIT_CORE: "inherit", "off" or "unlimited" (as far as the hard limit allows)
  bool reads_stdin = false;      // our standard input is its own; else it reads nothing
};

// What differs between one start of a worker and another.
struct WorkerContext {
  int local_rank = 0;
  std::string error_file;
  int attempt = 0;
  std::string last_failure;  // of the attempt before; empty: none
};

// The worker's environment is the launcher's own plus torchrun's variables and ours; docs/reference/environment.md.
WorkerSpec make_worker_spec(const LaunchPlan& plan, const NodeAssignment& assignment, const WorkerContext& context);

}  // namespace ddp::launcher
