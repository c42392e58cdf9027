// Determines where the workers meet: the number of nodes, the rank of this node, the address and port of the store, and
// the run's name. The functions are pure.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/start/facts/node_facts.h"
#include "launcher/start/plan/launch_plan.h"

namespace ddp::launcher {

struct RendezvousPlan {
  NodesPlan nodes;
  StorePlan store;
  std::string run_id;
  std::vector<std::string> notes;
};

// Returns whether a numeric address belongs to the loopback interface.
bool is_loopback(const std::string& address);

// Uses --standalone, --rdzv-*, --master-*, --local-addr and --nnodes. An address that is a name stays a name; it is
// resolved when the store starts to listen.
base::Result<RendezvousPlan, StartFailure> plan_rendezvous(const Options& options, const NodeFacts& facts);

// torchrun's dynamic backend ignores --node-rank. Returns the options without it, with a warning, if they ask for this
// backend. A number that a scheduler gives, or one with --master-addr, is kept.
Options without_ignored_number(const Options& options);

// Determines how many nodes the job has, and which of them this is. Uses --nnodes, --node-rank, --rdzv-*, --master-*
// and --node-timeout. `is_static` means that nodes are numbered as with torchrun's static backend.
base::Result<NodesPlan, StartFailure> plan_nodes(const Options& options, bool is_static);

}  // namespace ddp::launcher
