// hwloc loads its plug-ins when it starts, and some of them link the libraries of GPU drivers. The launcher must never
// load those libraries, so the plug-ins are disabled here. Reading CPUs and memory needs none of them.
#include "launcher/start/facts/cpu_topology.h"

#include <hwloc.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

namespace ddp::launcher {
namespace {

constexpr const char* kPluginFolder = "HWLOC_PLUGINS_PATH";

class NoPlugins {
 public:
  NoPlugins() {
    if (const char* value = std::getenv(kPluginFolder)) before_ = value;
    ::setenv(kPluginFolder, "/dev/null", 1);
  }
  ~NoPlugins() {
    if (before_) {
      ::setenv(kPluginFolder, before_->c_str(), 1);
    } else {
      ::unsetenv(kPluginFolder);
    }
  }
  NoPlugins(const NoPlugins&) = delete;
  NoPlugins& operator=(const NoPlugins&) = delete;

 private:
  std::optional<std::string> before_;
};

int index_of(hwloc_obj_t object, hwloc_obj_type_t type, hwloc_topology_t topology) {
  const hwloc_obj_t ancestor = hwloc_get_ancestor_obj_by_type(topology, type, object);
  return ancestor != nullptr ? static_cast<int>(ancestor->logical_index) : -1;
}

// Returns the first NUMA node that has the CPU. Further nodes with the same CPUs are special memory (high bandwidth,
// persistent).
int numa_node_of(hwloc_topology_t topology, hwloc_obj_t unit) {
  for (hwloc_obj_t node = nullptr;
       (node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != nullptr;) {
    if (hwloc_bitmap_isincluded(unit->cpuset, node->cpuset) != 0) return static_cast<int>(node->os_index);
  }
  return 0;
}

CpuPlace place_of(hwloc_topology_t topology, hwloc_obj_t unit, int cpu) {
  CpuPlace place;
  place.cpu = cpu;
  place.numa_node = numa_node_of(topology, unit);
  place.socket = std::max(0, index_of(unit, HWLOC_OBJ_PACKAGE, topology));
  place.core = index_of(unit, HWLOC_OBJ_CORE, topology);
  place.cache = index_of(unit, HWLOC_OBJ_L3CACHE, topology);
  if (place.core < 0) place.core = cpu;
  if (place.cache < 0) place.cache = place.numa_node;
  return place;
}

}  // namespace

base::Result<CpuTopology> read_cpu_topology(const std::vector<int>& cpus) {
  const NoPlugins no_plugins;
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return base::Failure{"hwloc cannot be initialized"};
  const std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)> owner(raw, &hwloc_topology_destroy);
  if (hwloc_topology_load(raw) != 0) return base::Failure{"hwloc cannot read the topology of this node"};
  CpuTopology topology;
  for (const int cpu : cpus) {
    const hwloc_obj_t unit = hwloc_get_pu_obj_by_os_index(raw, static_cast<unsigned>(cpu));
    if (unit != nullptr) topology.cpus.push_back(place_of(raw, unit, cpu));
  }
  if (topology.cpus.empty()) return base::Failure{"hwloc reports none of the CPUs that this process may run on"};
  return topology;
}

}  // namespace ddp::launcher
