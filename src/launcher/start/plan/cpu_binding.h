// Determines which CPUs each worker runs on under --numa-binding, as a pure function of the topology.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/start/facts/cpu_topology.h"
#include "launcher/start/plan/launch_plan.h"

namespace ddp::launcher {

struct WorkerPlace {
  std::string gpu;               // name of the GPU, for the description; empty if there is none
  std::optional<int> numa_node;  // NUMA node of the GPU; if std::nullopt, the worker gets one in turn
};

// Returns one binding per worker, for one place per worker. `mode` selects the CPUs. They are all CPUs of the NUMA node
// near the worker's GPU (node), or of that node's socket (socket). With exclusive, the node's cores are divided evenly
// among its workers, and the first workers may get one more. With core-complex, each worker gets the CPUs of one
// last-level cache of the node, a different one as long as there are enough.
base::Result<std::vector<WorkerBinding>> bind_cpus(NumaBinding mode, const CpuTopology& topology,
                                                   const std::vector<WorkerPlace>& workers);

}  // namespace ddp::launcher
