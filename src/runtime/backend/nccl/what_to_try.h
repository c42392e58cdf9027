// Suggests settings to try if the first collective of a group over GPUs fails or hangs. There are few possible reasons.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ddp::internal {

struct GpuLibraries;

struct GpuSurroundings {
  bool shares_node = false;              // other ranks of the group are on this node
  bool several_nodes = false;            // the group spans several nodes
  bool iommu = false;                    // an IOMMU translates device addresses, so peers' memory may be unreachable
  bool p2p_disabled = false;             // NCCL_P2P_DISABLE is 1
  bool shm_disabled = false;             // NCCL_SHM_DISABLE is 1
  bool has_substitute = false;           // the user named a backend to fall back to
  std::string interface;                 // value of NCCL_SOCKET_IFNAME
  std::uint64_t shm_free = 0;            // free bytes in /dev/shm
  bool host_memory_from_driver = false;  // NCCL shares host memory through the driver instead of /dev/shm

  // Returns the surroundings of this process.
  static GpuSurroundings inspect(const GpuLibraries& libraries, bool shares_node, bool several_nodes);
};

// Returns whether NCCL of this version shares host memory between ranks through the driver, and not through files in
// /dev/shm, unless the driver refuses that. `cumem` and `cumem_host` are the values of NCCL_CUMEM_ENABLE and
// NCCL_CUMEM_HOST_ENABLE, empty if they are not set.
bool takes_host_memory_from_driver(int nccl_version, int driver_version, std::string_view cumem,
                                   std::string_view cumem_host);

// Returns the suggestions as a sentence. The function is pure.
std::string what_to_try(const GpuSurroundings& surroundings);

}  // namespace ddp::internal
