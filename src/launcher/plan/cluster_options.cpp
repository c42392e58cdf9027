#include "launcher/plan/cluster_options.h"

#include "base/exit_code.h"
#include "base/hash.h"

namespace ddp::launcher {
namespace {

// Jobs that share a node have ports of their own, as far as that is possible without asking.
constexpr std::uint16_t kFirstPort = 29400;
constexpr std::uint16_t kPorts = 2000;

std::uint16_t port_of(const std::string& job_id) {
  base::Fnv1a64 hash;
  hash.update(job_id);
  return static_cast<std::uint16_t>(kFirstPort + hash.value() % kPorts);
}

// What has hosts, and starts a script on one of them: whether launchers were started on the others it does not say.
bool is_allocation_only(const ClusterEnv& cluster) {
  return cluster.engine == "LSF" || cluster.engine == "PBS";
}

}  // namespace

base::Result<Options, PlanFailure> with_cluster(const Options& options, const HostFacts& facts) {
  Options result = options;
  const bool is_said = options.max_nodes > 1 || options.node_rank || options.standalone;
  if (options.manner != Manner::native || is_said || options.engine == "none") return result;
  if (!facts.cluster_failure.empty()) return PlanFailure{base::kExitUsage, facts.cluster_failure};
  result.warnings.insert(result.warnings.end(), facts.cluster_warnings.begin(), facts.cluster_warnings.end());
  const std::optional<ClusterEnv>& cluster = facts.cluster;
  if (!cluster || cluster->node_count.value_or(1) < 2) return result;
  if (options.engine == "auto" && is_allocation_only(*cluster)) {
    result.warnings.push_back(cluster->engine + " has given " + cluster->derived +
                              ". This is a job of this node alone; where a ddplaunch runs on each, give --engine=" +
                              (cluster->engine == "LSF" ? "lsf" : "pbs"));
    return result;
  }
  result.min_nodes = result.max_nodes = *cluster->node_count;
  result.node_rank = cluster->node_rank;
  const bool has_place = !options.rdzv_endpoint.empty() || !options.master_addr.empty();
  if (!has_place && cluster->master_addr) result.master_addr = *cluster->master_addr;
  if (!has_place && !cluster->master_addr && !cluster->hosts.empty()) result.master_addr = cluster->hosts.front();
  if (result.master_addr.empty() && !has_place) {
    return PlanFailure{base::kExitUsage,
                       cluster->engine + " says " + cluster->derived +
                           ", but not where the nodes meet. Give --master-addr=HOST, the host of node "
                           "0, on all nodes, or --engine=none for a job of its own on each."};
  }
  if (!options.master_port && options.rdzv_endpoint.empty()) {
    result.master_port = cluster->master_port.value_or(port_of(cluster->job_id));
  }
  if (options.run_id.empty() && !cluster->job_id.empty()) result.run_id = cluster->job_id;
  result.warnings.push_back(cluster->engine + ": " + cluster->derived);
  return result;
}

}  // namespace ddp::launcher
