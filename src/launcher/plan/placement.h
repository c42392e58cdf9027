// Placement: where a node's workers stand in the job in one attempt, and where they meet. A value.
#pragma once

#include <cstdint>
#include <string>

#include "base/printable.h"
#include "launcher/limits.h"

namespace ddp::launcher {

struct Placement {
  int attempt = 0;  // how often the job has been restarted
  int node_rank = 0;
  int node_count = 1;
  int first_rank = 0;  // global rank of local rank 0
  int world_size = 1;
  std::string master_addr;
  std::uint16_t master_port = 0;
  std::string interface;  // that leads to the other nodes; empty: there are none, or it is not known
  // Fit for a terminal, and with a number if another node has the same host name; empty: not known yet.
  std::string node_name;
};

// The name of this node in reports: `host_name`, the plan's, as it is, unless the job has another name for this node.
inline const std::string& node_name(const std::string& host_name, const Placement& placement) {
  const bool is_same = placement.node_name == base::printable(host_name, limits::kShownName);
  return is_same || placement.node_name.empty() ? host_name : placement.node_name;
}

}  // namespace ddp::launcher
