// What the scheduler that started this process (Slurm, mpirun, Kubernetes, …) says about the job: how many nodes, which
// of them this is, who the others are. Pure; the schedulers are in schedulers.h.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace ddp::launcher {

struct ClusterEnv {
  std::string scheduler;                     // "Slurm"
  std::optional<int> node_count;             // nothing: the scheduler does not say, so that only --nnodes can
  int node_rank = 0;                         // below node_count
  std::optional<int> workers;                // on this node, where the scheduler says how many GPUs it has
  std::vector<std::string> hosts;            // of all nodes, in their order; empty: the scheduler does not say
  std::string job_id;                        // of the step, where the scheduler has steps; empty: it has none
  std::optional<std::string> master_addr;    // only where the scheduler names it
  std::optional<std::uint16_t> master_port;  // the same
  std::string derived;                       // "2 nodes (SLURM_NNODES), this is node 1 (SLURM_NODEID), hosts …"
};

// The text of a file; nothing where it cannot be read.
using FileReader = std::function<std::optional<std::string>(const std::string& path)>;

struct ClusterRequest {
  std::string scheduler = "auto";        // one of scheduler_names()
  std::vector<std::string> environment;  // "NAME=value"; an empty value counts as none
  std::string host_name;                 // of this node
  FileReader read_file;                  // for host files that variables name; none: no file can be read
};

struct ClusterFinding {
  std::optional<ClusterEnv> cluster;  // nothing: no scheduler started us, or "none" was asked for
  std::vector<std::string> warnings;  // with and without a scheduler
};

// With "auto" the first scheduler of the table whose variables are there. Refused are variables that contradict each
// other or hold nonsense, several of us on one node (ddplaunch starts a node's workers itself), two schedulers that
// contradict each other, and a scheduler that is asked for by name but did not start us. A failure names the variables
// and their values, and says what to do.
base::Result<ClusterFinding> read_cluster_env(const ClusterRequest& request);

// The values of --scheduler: "auto", "none", then the schedulers.
std::vector<std::string> scheduler_names();

}  // namespace ddp::launcher
