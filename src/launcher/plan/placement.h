// Placement: where a node's workers stand in the job in one attempt, and where they meet. A value.
#pragma once

#include <cstdint>
#include <string>

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
  std::string node_name;  // in the job, if another node has the same host name; else empty
};

// The name of this node in everything that people read. `host_name`: the plan's.
inline const std::string& node_name(const std::string& host_name, const Placement& placement) {
  return placement.node_name.empty() ? host_name : placement.node_name;
}

}  // namespace ddp::launcher
