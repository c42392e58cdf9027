// Where the workers meet: how many nodes there are and which this is, the address and port of the store, and the name
// of the run. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/facts/node_facts.h"
#include "launcher/plan/launch_plan.h"

namespace ddp::launcher {

struct RendezvousPlan {
  NodesPlan nodes;
  StorePlan store;
  std::string run_id;
  std::vector<std::string> notes;
};

// Of an address as text: a number of the loopback interface.
bool is_loopback(const std::string& address);

// From --standalone, --rdzv-*, --master-*, --local-addr and --nnodes. An address that is no number stays a name; it is
// looked up when the store starts to listen.
base::Result<RendezvousPlan, StartFailure> plan_rendezvous(const Options& options, const NodeFacts& facts);

// How many nodes the job has, and which this is. From --nnodes, --node-rank, --rdzv-*, --master-*, --node-timeout.
// `is_static`: as torchrun's static backend.
base::Result<NodesPlan, StartFailure> plan_nodes(const Options& options, bool is_static);

}  // namespace ddp::launcher
