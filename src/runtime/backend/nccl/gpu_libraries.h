// GpuLibraries holds the tables of functions that a backend for GPUs calls.
#pragma once

#include <chrono>

#include "runtime/backend/nccl/cuda_api.h"
#include "runtime/backend/nccl/nccl_api.h"

namespace ddp::internal {

struct GpuLibraries {
  NcclApi nccl;
  CudaApi cuda;
  std::chrono::milliseconds closing_limit = std::chrono::seconds(10);  // see NcclMembers
};

}  // namespace ddp::internal
