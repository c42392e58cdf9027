// Which CPUs each worker runs on under --numa-binding: a pure function of the topology.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/facts/cpu_topology.h"
#include "launcher/plan/launch_plan.h"

namespace ddp::launcher {

struct WorkerPlace {
  std::string gpu;               // its name, for the description; empty: none
  std::optional<int> numa_node;  // of its GPU; nothing: the worker is given a node in turn
};

// `mode`: all CPUs of the NUMA node near the worker's GPU; all of that node's socket; the node's cores, divided evenly
// among its workers, the first ones getting one more (exclusive); or the CPUs of one last-level cache of the node,
// another for each worker as long as there are some (core-complex). One place a worker; one binding a worker.
base::Result<std::vector<WorkerBinding>> bind_cpus(NumaBinding mode, const CpuTopology& topology,
                                                   const std::vector<WorkerPlace>& workers);

}  // namespace ddp::launcher
