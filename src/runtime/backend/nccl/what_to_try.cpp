#include "runtime/backend/nccl/what_to_try.h"

#include <sys/statvfs.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "base/text.h"
#include "runtime/backend/nccl/gpu_libraries.h"
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

// NCCL 2.23 introduced this, 2.24 made it the default with a driver for CUDA 12.6 or newer (src/misc/cudawrap.cc).
bool takes_host_memory_from_driver(int nccl_version, int driver_version, std::string_view cumem,
                                   std::string_view cumem_host) {
  if (nccl_version < 22300 || driver_version < 12020 || cumem == "0") return false;
  return cumem_host.empty() ? nccl_version >= 22400 && driver_version >= 12060 : cumem_host != "0";
}

GpuSurroundings GpuSurroundings::inspect(const GpuLibraries& libraries, bool shares_node, bool several_nodes) {
  GpuSurroundings found;
  found.shares_node = shares_node;
  found.several_nodes = several_nodes;
  std::error_code none;
  found.iommu = !std::filesystem::is_empty("/sys/kernel/iommu_groups", none) && !none;
  found.p2p_disabled = variable("NCCL_P2P_DISABLE") == "1";
  found.shm_disabled = variable("NCCL_SHM_DISABLE") == "1";
  found.has_substitute = variable(wire::env::kBackend).find(',') != std::string::npos;
  found.interface = variable("NCCL_SOCKET_IFNAME");
  found.host_memory_from_driver =
      takes_host_memory_from_driver(libraries.nccl.version, libraries.cuda.driver_version,
                                    variable("NCCL_CUMEM_ENABLE"), variable("NCCL_CUMEM_HOST_ENABLE"));
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
  const bool has_little_shm = here.shm_free < kEnoughSharedMemory;
  const std::string free = std::to_string(here.shm_free >> 20) + " MiB are free here";
  if (here.shares_node && !here.shm_disabled && here.host_memory_from_driver) {
    ways.push_back(
        "NCCL_CUMEM_HOST_ENABLE=0 (NCCL gets host memory from the driver, which a container may refuse; docker: "
        "--cap-add=SYS_NICE)" +
        (has_little_shm ? ", with a larger /dev/shm, which NCCL then uses (" + free + ")" : ""));
  } else if (here.shares_node && !here.shm_disabled && has_little_shm) {
    ways.push_back("a larger /dev/shm (" + free + "; docker: --shm-size=1g) or NCCL_SHM_DISABLE=1");
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
