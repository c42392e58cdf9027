// Chooses the GPU that a rank uses.
#pragma once

#include <string>

#include "runtime/backend/nccl/cuda_api.h"
#include "runtime/backend/plugin.h"
#include "wire/status_page_layout.h"

namespace ddp::internal {

// Each rank takes the GPU of its local rank. If only one GPU is visible, the rank takes that one, because the launcher
// shows each worker its own GPU (CUDA_VISIBLE_DEVICES). Ranks that really share a GPU are found by comparing
// `ProbeResult::device`.
constexpr int device_of(int local_rank, int device_count) {
  return device_count > 1 ? local_rank : 0;
}

// `host` is the first half of ProbeResult::device. If NCCL may run several ranks on one GPU
// (NCCL_MULTI_RANK_GPU_ENABLE=1), `gpu_may_be_shared` is set. Then no device is named, so that none is found twice.
ProbeResult probe_device(int local_rank, const CudaApi& cuda, const std::string& host, bool gpu_may_be_shared);

// Writes the GPU's UUID onto the page, so that the launcher can compare it with its plan. If the driver does not tell
// the UUID, nothing is written.
void show_device(const CudaApi& cuda, int device, wire::StatusPageLayout& page);

}  // namespace ddp::internal
