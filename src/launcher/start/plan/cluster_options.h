// Adds to the options what the scheduler that started the launcher (Slurm, mpirun, …) reports, unless the user has
// given it. The functions are pure.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "launcher/start/facts/node_facts.h"
#include "launcher/start/plan/launch_plan.h"

namespace ddp::launcher {

// For a job on several nodes, adds their number, the rank of this node, where they meet, and the job's name. Options
// take precedence: when invoked as torchrun, with --standalone and with --node-rank, nothing is added. With --nnodes,
// at most this node's rank is added. A remark says what was derived from which variables.
base::Result<Options, StartFailure> with_cluster(const Options& options, const NodeFacts& facts);

// Returns whether the scheduler only has hosts and starts a script on one of them. It does not say whether launchers
// were started on the others.
bool is_allocation_only(const ClusterEnv& cluster);

// Returns the port for a job's store if the user has not given one. All nodes derive the same port from the job's name.
std::uint16_t port_of_job(const std::string& job_id);

}  // namespace ddp::launcher
