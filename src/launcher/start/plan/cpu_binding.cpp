#include "launcher/start/plan/cpu_binding.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"

namespace ddp::launcher {
namespace {

using Places = std::vector<CpuPlace>;

Places select(const CpuTopology& topology, int CpuPlace::*field, int value) {
  Places places;
  for (const CpuPlace& place : topology.cpus) {
    if (place.*field == value) places.push_back(place);
  }
  return places;
}

std::set<int> values(const Places& places, int CpuPlace::*field) {
  std::set<int> result;
  for (const CpuPlace& place : places) result.insert(place.*field);
  return result;
}

// Returns the CPUs of `count` cores of the NUMA node, after the first `skipped` cores.
Places cores(const Places& node, std::size_t skipped, std::size_t count) {
  const std::set<int> all = values(node, &CpuPlace::core);
  const std::vector<int> ordered(all.begin(), all.end());
  const std::set<int> mine(ordered.begin() + static_cast<std::ptrdiff_t>(skipped),
                           ordered.begin() + static_cast<std::ptrdiff_t>(skipped + count));
  Places places;
  std::ranges::copy_if(node, std::back_inserter(places),
                       [&](const CpuPlace& place) { return mine.contains(place.core); });
  return places;
}

// Returns the caches of a NUMA node as lists of CPUs. The longest list comes first, because the affinity mask may
// exclude CPUs of some caches.
std::vector<Places> caches(const Places& node) {
  std::map<int, Places> by_cache;
  for (const CpuPlace& place : node) by_cache[place.cache].push_back(place);
  std::vector<Places> groups;
  for (auto& [cache, places] : by_cache) groups.push_back(std::move(places));
  std::ranges::stable_sort(groups, std::greater(), &Places::size);
  return groups;
}

WorkerBinding describe(const Places& places, const WorkerPlace& worker) {
  WorkerBinding binding;
  for (const CpuPlace& place : places) binding.cpus.push_back(place.cpu);
  const std::set<int> nodes = values(places, &CpuPlace::numa_node);
  binding.memory_nodes.assign(nodes.begin(), nodes.end());
  binding.description = base::plural(nodes.size(), "NUMA node ", "NUMA nodes ") +
                        base::short_rank_list(binding.memory_nodes) + ", CPUs " + base::short_rank_list(binding.cpus);
  if (worker.numa_node) binding.description += " (near GPU " + worker.gpu + ")";
  if (!worker.gpu.empty() && !worker.numa_node) binding.description += " (location of GPU " + worker.gpu + " unknown)";
  return binding;
}

// Returns the NUMA node of each worker: the node near its GPU, or each node in turn.
base::Result<std::vector<int>> homes(const CpuTopology& topology, const std::vector<WorkerPlace>& workers) {
  const std::set<int> known = values(topology.cpus, &CpuPlace::numa_node);
  const std::vector<int> nodes(known.begin(), known.end());
  std::vector<int> result;
  std::size_t turn = 0;
  for (const WorkerPlace& worker : workers) {
    if (worker.numa_node && !known.contains(*worker.numa_node)) {
      return base::Failure{"--numa-binding: GPU " + worker.gpu + " is near NUMA node " +
                           std::to_string(*worker.numa_node) +
                           ", but none of its CPUs may be used here (affinity mask or cpuset; see taskset -p $$)."};
    }
    result.push_back(worker.numa_node ? *worker.numa_node : nodes[turn++ % nodes.size()]);
  }
  return result;
}

}  // namespace

base::Result<std::vector<WorkerBinding>> bind_cpus(NumaBinding mode, const CpuTopology& topology,
                                                   const std::vector<WorkerPlace>& workers) {
  const auto home = homes(topology, workers);
  if (!home) return home.error();
  std::map<int, std::size_t> population;
  for (const int node : home.value()) ++population[node];

  std::map<int, std::size_t> seen;  // number of earlier workers on the NUMA node
  std::vector<WorkerBinding> bindings;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    const int number = home.value()[i];
    const Places node = select(topology, &CpuPlace::numa_node, number);
    const std::size_t place = seen[number]++;
    Places chosen = node;
    if (mode == NumaBinding::socket) chosen = select(topology, &CpuPlace::socket, node.front().socket);
    if (mode == NumaBinding::core_complex) {
      const std::vector<Places> groups = caches(node);
      chosen = groups[place % groups.size()];
    }
    if (mode == NumaBinding::exclusive) {
      const std::size_t all = values(node, &CpuPlace::core).size();
      const std::size_t sharers = population[number];
      if (sharers > all) {
        return base::Failure{"--numa-binding=exclusive: " + std::to_string(sharers) + " workers on NUMA node " +
                             std::to_string(number) + ", which has " +
                             base::counted(static_cast<std::int64_t>(all), "core") +
                             " available. Use fewer workers or --numa-binding=node."};
      }
      const std::size_t extra = all % sharers;
      chosen = cores(node, place * (all / sharers) + std::min(place, extra), all / sharers + (place < extra ? 1 : 0));
    }
    bindings.push_back(describe(chosen, workers[i]));
  }
  return bindings;
}

}  // namespace ddp::launcher
