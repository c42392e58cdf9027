// WorkerSpec describes the program that is executed for one worker. A pure function of plan and placement makes it.
#pragma once

#include <string>
#include <vector>

#include "launcher/start/plan/worker_variables.h"
#include "wire/record_ring_layout.h"

namespace ddp::launcher {

struct WorkerSpec {
  int rank = 0;
  int attempt = 0;
  std::string program;                                   // path of the program
  std::vector<std::string> arguments;                    // argv, complete: macros replaced, --local_rank inserted
  std::vector<std::string> environment;                  // all entries, each as "NAME=value"
  std::vector<int> cpus;                                 // CPUs to run on; empty means all
  std::vector<int> memory_nodes;                         // NUMA nodes to prefer; empty means the kernel's default
  CoreDumps core = CoreDumps::inherit;                   // RLIMIT_CORE
  std::vector<int> ignored_signals;                      // ignored by the worker unless the program handles them
  wire::RecordMode recording = wire::RecordMode::steps;  // what the worker records
  bool reads_stdin = false;                              // reads the launcher's standard input; otherwise it has none
};

// Contains the descriptors that a worker gets in addition to its spec. The caller keeps them. -1 means none.
struct WorkerDescriptors {
  int in = 0;
  int out = 1;
  int err = 2;
  int page = -1;          // see RankProbe; becomes wire::kPageDescriptor if the worker may have so many
  int ring = -1;          // becomes wire::kRingDescriptor in the same way
  int states = -1;        // see StateMemory; becomes wire::kStateDescriptor in the same way
  int cgroup_procs = -1;  // cgroup.procs of the cgroup to join, open for writing
  int cgroup = -1;        // folder of the cgroup to join, open; -1 means to join by cgroup_procs, which takes longer
};

// The worker's environment is the launcher's own, plus the variables of torchrun and of ddplaunch
// (docs/reference/environment.md).
WorkerSpec make_worker_spec(const LaunchPlan& plan, const Placement& placement, const WorkerContext& worker);

}  // namespace ddp::launcher
