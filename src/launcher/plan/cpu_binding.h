// Which CPUs each worker runs on under --numa-binding: a pure function of the topology.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/plan/cpu_topology.h"
#include "launcher/plan/launch_plan.h"

namespace ddp::launcher {

struct WorkerPlace {
  std::string gpu;               // its name, for the description; empty: none
  std::optional<int> numa_node;  // of its GPU; nothing: the worker is given a node in turn
};

// `mode` is "node" (all CPUs of the NUMA node near the worker's GPU), "socket" (all of that node's socket),
// "exclusive" (the node's cores, divided evenly among its workers, the first ones getting one more) or "core-complex"
// (the CPUs of one last-level cache of the node, another for each worker as long as there are some). One place a
// worker; one binding a worker.
base::Result<std::vector<WorkerBinding>> bind_cpus(const std::string& mode, const CpuTopology& topology,
                                                   const std::vector<WorkerPlace>& workers);

}  // namespace ddp::launcher
