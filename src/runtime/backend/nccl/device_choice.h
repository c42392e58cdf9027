// Which GPU a rank uses.
#pragma once

#include <string>

#include "runtime/backend/nccl/cuda_api.h"
#include "runtime/backend/plugin.h"

namespace ddp::internal {

// Each rank takes the GPU of its local rank. If only one is visible it is that one: the launcher shows each worker its
// own (CUDA_VISIBLE_DEVICES), and ranks that really have the same are found by comparing `ProbeResult::device`.
constexpr int device_of(int local_rank, int device_count) {
  return device_count > 1 ? local_rank : 0;
}

// `host` is the first half of ProbeResult::device. `gpu_may_be_shared`: NCCL was told to
// allow several ranks on one GPU (NCCL_MULTI_RANK_GPU_ENABLE=1), so no device is named and none can be found twice.
ProbeResult probe_device(int local_rank, const CudaApi& cuda, const std::string& host, bool gpu_may_be_shared);

}  // namespace ddp::internal
