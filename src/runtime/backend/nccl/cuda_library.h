// The CUDA driver of this node.
#pragma once

#include <string>

#include "runtime/backend/nccl/cuda_api.h"

namespace ddp::internal {

struct CudaLibrary {
  CudaApi api;
  std::string obstacle;  // why it cannot be used; empty: it can
};

// Looks the functions up. The library stays open.
CudaLibrary open_cuda(const char* file);

// libcuda.so.1, which belongs to the driver and not to CUDA's toolkit: any version. Opened once a process, any thread.
const CudaLibrary& cuda_library();

}  // namespace ddp::internal
