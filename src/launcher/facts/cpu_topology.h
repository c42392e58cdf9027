// CpuTopology: where each CPU stands in the machine. A plain value, so that what is decided by it can be tested on
// machines that we do not have.
#pragma once

#include <vector>

#include "base/result.h"

namespace ddp::launcher {

struct CpuPlace {
  int cpu = 0;        // as the kernel numbers it
  int core = 0;       // CPUs of one core share it
  int cache = 0;      // CPUs of one last-level cache share it; without such a cache, those of a NUMA node
  int numa_node = 0;  // as the kernel numbers it
  int socket = 0;

  friend bool operator==(const CpuPlace&, const CpuPlace&) = default;
};

struct CpuTopology {
  std::vector<CpuPlace> cpus;  // ascending by number; only those that we may use
};

// Asks hwloc (docs/development/decisions/0007-hwloc.md) about these CPUs.
base::Result<CpuTopology> read_cpu_topology(const std::vector<int>& cpus);

}  // namespace ddp::launcher
