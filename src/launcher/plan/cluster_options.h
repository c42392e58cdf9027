// What the scheduler that started us (Slurm, mpirun, …) adds to the options, where the user has not said it himself.
// Pure.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "launcher/facts/node_facts.h"
#include "launcher/plan/launch_plan.h"

namespace ddp::launcher {

// Of a job on several nodes: how many, which this is, where they meet, the job's name. Options win: under torchrun's
// name, with --standalone and with --node-rank nothing is added, with --nnodes at most this node's number. A remark
// says what was derived from which variables.
base::Result<Options, StartFailure> with_cluster(const Options& options, const NodeFacts& facts);

// The scheduler has hosts, and starts a script on one of them: whether launchers were started on the others it does not
// say.
bool is_allocation_only(const ClusterEnv& cluster);

// For the store of a job to which nobody has given a port: all its nodes get the same from its name.
std::uint16_t port_of_job(const std::string& job_id);

}  // namespace ddp::launcher
