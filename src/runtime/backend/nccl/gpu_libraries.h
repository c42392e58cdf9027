// GpuLibraries holds the tables of functions that a backend for GPUs calls.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/backend/nccl/cuda_api.h"
#include "runtime/backend/nccl/nccl_api.h"

namespace ddp::internal {

// Holds the kernels that are loaded into the GPUs' contexts, by GPU and name. They stay until the process ends.
struct LoadedKernels {
  std::mutex mutex;
  std::map<int, std::map<std::string, CudaFunctionHandle>> by_gpu;
  bool is_refusal_reported = false;
};

// All groups of a process share it.
struct GpuLibraries {
  NcclApi nccl;
  CudaApi cuda;
  std::chrono::milliseconds closing_limit = std::chrono::seconds(10);  // see NcclMembers
  std::shared_ptr<LoadedKernels> kernels = std::make_shared<LoadedKernels>();
};

}  // namespace ddp::internal
