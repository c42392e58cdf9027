// Defines CpuTopology, the location of each CPU in the node. It is a plain value, so that decisions based on it can be
// tested for hardware that the tests do not run on.
#pragma once

#include <vector>

#include "base/result.h"

namespace ddp::launcher {

struct CpuPlace {
  int cpu = 0;        // the kernel's number of the CPU
  int core = 0;       // CPUs of one core share it
  int cache = 0;      // CPUs of one last-level cache share it; without such a cache, CPUs of one NUMA node share it
  int numa_node = 0;  // the kernel's number of the NUMA node
  int socket = 0;

  friend bool operator==(const CpuPlace&, const CpuPlace&) = default;
};

struct CpuTopology {
  std::vector<CpuPlace> cpus;  // ascending by number; only CPUs that this process may use
};

// Queries hwloc (docs/development/decisions/0007-hwloc.md) about these CPUs.
base::Result<CpuTopology> read_cpu_topology(const std::vector<int>& cpus);

}  // namespace ddp::launcher
