#include "runtime/backend/nccl/device_choice.h"

namespace ddp::internal {

ProbeResult probe_device(int local_rank, const CudaApi& cuda, const std::string& host, bool gpu_may_be_shared) {
  int count = 0;
  if (const CudaStatus status = cuda.device_count(count); status != kCudaSuccess) {
    return {"no NVIDIA GPU is visible here (" + cuda.error_name(status) + ")", ""};
  }
  if (count == 0) return {"no NVIDIA GPU is visible here", ""};
  const int device = device_of(local_rank, count);
  if (device >= count) {
    return {"there is no GPU for local rank " + std::to_string(local_rank) +
                " (visible GPUs: " + std::to_string(count) + ")",
            ""};
  }
  std::string bus_id;
  if (const CudaStatus status = cuda.bus_id(device, bus_id); status != kCudaSuccess) {
    return {"GPU " + std::to_string(device) + " does not respond (" + cuda.error_name(status) + ")", ""};
  }
  if (gpu_may_be_shared) return {"", ""};
  // Nodes may share a host name and have their GPUs at the same addresses. Containers of a node have names of their
  // own. MIG slices of a GPU share its address.
  std::string uuid;
  const bool has_uuid = cuda.uuid && cuda.uuid(device, uuid) == kCudaSuccess;
  return {"", has_uuid ? uuid : host + "/" + bus_id};
}

}  // namespace ddp::internal
