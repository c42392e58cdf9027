#include "launcher/start/plan/cluster_options.h"

#include "base/exit_code.h"
#include "base/hash.h"
#include "base/text.h"

namespace ddp::launcher {
namespace {

// Jobs that share a node get different ports, as far as that is possible without communication.
constexpr std::uint16_t kFirstPort = 29400;
constexpr std::uint16_t kPorts = 2000;

// Handles options with --nnodes. Only a scheduler that numbers its nodes and leaves their number to the user (a
// Kubernetes Job) adds anything to them. If the number of nodes varies, nodes are numbered as they arrive.
base::Result<Options, StartFailure> with_number(const Options& options, const std::optional<ClusterEnv>& cluster) {
  if (!cluster || cluster->node_count || options.min_nodes != options.max_nodes) return options;
  const std::string count = std::to_string(options.max_nodes);
  const std::string said = cluster->scheduler + ": " + cluster->derived;
  if (cluster->node_rank >= options.max_nodes) {
    return StartFailure{base::kExitUsage, said + ", which is not below --nnodes=" + count +
                                              " (nodes count from 0). Give --nnodes=N with the number of all nodes, "
                                              "give --node-rank=R, or use --scheduler=none."};
  }
  Options result = options;
  result.node_rank = cluster->node_rank;
  result.warnings.push_back(said + " of " + count + " (--nnodes)");
  return result;
}

// Returns where the nodes meet according to the scheduler, or an empty string if it does not say.
std::string meeting_place(const ClusterEnv& cluster, const std::string& host_name) {
  if (!cluster.master_addr) return cluster.hosts.empty() ? "" : cluster.hosts.front();
  // Older operators for PyTorchJob give the first pod "localhost", and the other pods its name.
  const bool is_first = cluster.node_rank == 0;
  return is_first && *cluster.master_addr == "localhost" ? host_name : *cluster.master_addr;
}

// Returns the options of a job over all nodes that the scheduler has counted.
base::Result<Options, StartFailure> over_nodes(const ClusterEnv& cluster, Options options,
                                               const std::string& host_name) {
  options.min_nodes = options.max_nodes = *cluster.node_count;
  options.node_rank = cluster.node_rank;
  const bool has_place = !options.rdzv_endpoint.empty() || !options.master_addr.empty();
  if (!has_place) options.master_addr = meeting_place(cluster, host_name);
  if (options.master_addr.empty() && !has_place) {
    return StartFailure{base::kExitUsage, cluster.scheduler + " reports " + cluster.derived +
                                              ", but not the address of node 0. Give --master-addr=HOST on all nodes, "
                                              "or use --scheduler=none to run a separate job on each."};
  }
  if (!options.master_port && options.rdzv_endpoint.empty()) {
    options.master_port = cluster.master_port.value_or(port_of_job(cluster.job_id));
  }
  if (options.run_id.empty() && !cluster.job_id.empty()) options.run_id = cluster.job_id;
  options.warnings.push_back(cluster.scheduler + ": " + cluster.derived);
  return options;
}

}  // namespace

bool is_allocation_only(const ClusterEnv& cluster) {
  return cluster.scheduler == "LSF" || cluster.scheduler == "PBS";
}

std::uint16_t port_of_job(const std::string& job_id) {
  base::Fnv1a64 hash;
  hash.update(job_id);
  return static_cast<std::uint16_t>(kFirstPort + hash.value() % kPorts);
}

base::Result<Options, StartFailure> with_cluster(const Options& options, const NodeFacts& facts) {
  const bool is_numbered = options.node_rank || options.standalone;
  if (options.compatibility_mode != CompatibilityMode::native || is_numbered || options.scheduler == "none")
    return options;
  const bool is_counted = options.max_nodes > 1;
  if (!facts.cluster_failure.empty() && (!is_counted || options.scheduler != "auto")) {
    return StartFailure{base::kExitUsage, facts.cluster_failure};
  }
  if (is_counted) return with_number(options, facts.cluster);
  Options result = options;
  base::append(result.warnings, facts.cluster_warnings);
  const std::optional<ClusterEnv>& cluster = facts.cluster;
  if (!cluster || cluster->node_count == 1) return result;
  if (!cluster->node_count && options.scheduler == "auto") return result;
  if (!cluster->node_count) {
    return StartFailure{
        base::kExitUsage,
        cluster->scheduler + ": " + cluster->derived +
            ", but the number of nodes is unknown. Give --nnodes=N, or use --scheduler=none to run on this node only."};
  }
  if (options.scheduler == "auto" && is_allocation_only(*cluster)) {
    result.warnings.push_back(cluster->scheduler + " reports " + cluster->derived +
                              ". This job runs on this node only; if each node runs ddplaunch, give --scheduler=" +
                              (cluster->scheduler == "LSF" ? "lsf" : "pbs"));
    return result;
  }
  return over_nodes(*cluster, std::move(result), facts.host_name);
}

}  // namespace ddp::launcher
