// Placement says which ranks a node's workers have in one attempt, and where they meet. It is a plain value.
#pragma once

#include <cstdint>
#include <string>

#include "base/printable.h"
#include "launcher/limits.h"
#include "wire/kept_state.h"

namespace ddp::launcher {

struct Placement {
  int attempt = 0;  // number of restarts so far
  int node_rank = 0;
  int node_count = 1;
  int first_rank = 0;  // global rank of local rank 0
  int world_size = 1;
  std::string master_addr;
  std::uint16_t master_port = 0;
  std::string interface;  // network interface to the other nodes; empty if there are none, or if it is not known
  // The name is safe for a terminal, and has a number if another node has the same host name. It is empty if it is not
  // known yet.
  std::string node_name;
  bool may_restart = false;    // a failure of this attempt may be followed by another attempt
  double image_cost = 0;       // share of the time that images of states may take; the same on all nodes
  wire::RestorePlan restore;   // the kept state to begin with
  std::int64_t job_began = 0;  // Unix time, ms; the same on all nodes
};

// Returns the name of this node in reports. It is the plan's `host_name`, unless the job has another name for this
// node.
inline const std::string& node_name(const std::string& host_name, const Placement& placement) {
  const bool is_same = placement.node_name == base::printable(host_name, limits::kShownName);
  return is_same || placement.node_name.empty() ? host_name : placement.node_name;
}

}  // namespace ddp::launcher
