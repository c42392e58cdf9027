#include "runtime/backend/nccl/what_to_try.h"

#include <sys/statvfs.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "base/text.h"
#include "wire/worker_env.h"

namespace ddp::internal {
namespace {

// NCCL needs about this much of /dev/shm for each pair of ranks.
constexpr std::uint64_t kEnoughSharedMemory = std::uint64_t{64} << 20;

std::string variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? "" : value;
}

}  // namespace

GpuSurroundings GpuSurroundings::look(bool shares_node, bool several_nodes) {
  GpuSurroundings found;
  found.shares_node = shares_node;
  found.several_nodes = several_nodes;
  std::error_code none;
  found.iommu = !std::filesystem::is_empty("/sys/kernel/iommu_groups", none) && !none;
  found.p2p_disabled = variable("NCCL_P2P_DISABLE") == "1";
  found.shm_disabled = variable("NCCL_SHM_DISABLE") == "1";
  found.has_substitute = variable(wire::env::kBackend).find(',') != std::string::npos;
  found.interface = variable("NCCL_SOCKET_IFNAME");
  struct statvfs shm {};
  if (::statvfs("/dev/shm", &shm) == 0) found.shm_free = std::uint64_t{shm.f_bavail} * shm.f_frsize;
  return found;
}

std::string what_to_try(const GpuSurroundings& here) {
  std::vector<std::string> ways;
  if (here.shares_node && !here.p2p_disabled) {
    ways.push_back(std::string("NCCL_P2P_DISABLE=1 (PCIe ACS or an IOMMU") + (here.iommu ? ", which is on here," : "") +
                   " blocks peer access between GPUs; if it helps, disable it in the BIOS)");
  }
  if (here.shares_node && !here.shm_disabled && here.shm_free < kEnoughSharedMemory) {
    ways.push_back("a larger /dev/shm (" + std::to_string(here.shm_free >> 20) +
                   " MiB are free here; docker: --shm-size=1g) or NCCL_SHM_DISABLE=1");
  }
  if (here.several_nodes) {
    ways.push_back("NCCL_SOCKET_IFNAME=<the interface that reaches the other nodes> (now: " +
                   (here.interface.empty() ? "NCCL's choice" : here.interface) + ")");
    ways.push_back("NCCL_IB_DISABLE=1 (sockets instead of InfiniBand)");
  }
  ways.push_back("NCCL_DEBUG=INFO (NCCL logs what it does)");
  if (!here.has_substitute) ways.push_back("--backend=nccl,gloo (gloo takes over where nccl does not work)");
  return "No collective of this group has succeeded yet. Try, one by one: " + base::join(ways, "; ") + ".";
}

}  // namespace ddp::internal
