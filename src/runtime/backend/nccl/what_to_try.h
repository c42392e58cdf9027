// What to try when the first collective of a group over GPUs fails or hangs, which has few reasons.
#pragma once

#include <cstdint>
#include <string>

namespace ddp::internal {

struct GpuSurroundings {
  bool shares_node = false;     // with other ranks of the group
  bool several_nodes = false;   // has the group
  bool iommu = false;           // translates addresses of devices: peers' memory may be out of reach
  bool p2p_disabled = false;    // NCCL_P2P_DISABLE
  bool shm_disabled = false;    // NCCL_SHM_DISABLE
  bool has_substitute = false;  // the user named a backend to take instead
  std::string interface;        // NCCL_SOCKET_IFNAME
  std::uint64_t shm_free = 0;   // bytes in /dev/shm

  // Of this process.
  static GpuSurroundings look(bool shares_node, bool several_nodes);
};

// A sentence; pure.
std::string what_to_try(const GpuSurroundings& surroundings);

}  // namespace ddp::internal
