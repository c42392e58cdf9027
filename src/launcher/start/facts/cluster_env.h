// Reads what the scheduler that started this process (Slurm, mpirun, Kubernetes, …) reports about the job: the number
// of nodes, this node's rank, and the other nodes. The functions are pure. The schedulers are in schedulers.h.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace ddp::launcher {

struct ClusterEnv {
  std::string scheduler;                     // title of the scheduler, such as "Slurm"
  std::optional<int> node_count;             // std::nullopt if not reported; then only --nnodes can give it
  int node_rank = 0;                         // below node_count
  std::optional<int> workers;                // number on this node, if the scheduler reports its GPUs
  std::vector<std::string> hosts;            // hosts of all nodes, in node order; empty if not reported
  std::string job_id;                        // ID of the step, if the scheduler has steps; empty if there is none
  std::optional<std::string> master_addr;    // set only if the scheduler reports it
  std::optional<std::uint16_t> master_port;  // set only if the scheduler reports it
  std::string derived;                       // "2 nodes, this is 1 (SLURM_NNODES, SLURM_NODEID), hosts …"
};

// Returns the text of a file, or std::nullopt if it cannot be read.
using FileReader = std::function<std::optional<std::string>(const std::string& path)>;

struct ClusterRequest {
  std::string scheduler = "auto";        // one of scheduler_names()
  std::vector<std::string> environment;  // "NAME=value" lines; an empty value counts as unset
  std::string host_name;                 // host name of this node
  FileReader read_file;                  // reads host files that variables name; if empty, no file is read
};

struct ClusterFinding {
  std::optional<ClusterEnv> cluster;  // std::nullopt if no scheduler started the launcher, or if "none" was requested
  std::vector<std::string> warnings;  // reported with and without a scheduler
};

// With "auto", the first scheduler of the table whose variables are set is used. Returns a failure if variables are
// invalid or contradict each other, or if two schedulers contradict each other. Several launchers on one node are a
// failure too, because ddplaunch itself starts a node's workers. So is a scheduler that is requested by name but did
// not start this launcher. A failure names the variables and their values, and says what to do.
base::Result<ClusterFinding> read_cluster_env(const ClusterRequest& request);

// Returns the values of --scheduler: "auto", "none", then the schedulers.
std::vector<std::string> scheduler_names();

}  // namespace ddp::launcher
