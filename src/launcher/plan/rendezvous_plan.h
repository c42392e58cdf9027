// Where the workers meet: the address and port of the store, and the name of the run. A pure function.
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

}  // namespace ddp::launcher
