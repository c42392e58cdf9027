// Runs ranks on the nccl backend, and keeps their data on GPUs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/backend/nccl/nccl_backend.h"
#include "support/gpu_libraries.h"
#include "support/rank_threads.h"

namespace ddp::test {

using namespace internal;

using Libraries = std::shared_ptr<GpuLibraries>;

// All ranks use the same libraries, which the test has changed.
inline RankThreads ranks_over(const Libraries& libraries, int size, std::chrono::milliseconds timeout = kPatience) {
  return {[libraries](const BackendOptions& options, const std::shared_ptr<Store>& store) -> std::unique_ptr<Backend> {
            return std::make_unique<NcclBackend>(options, store, libraries);
          },
          size, timeout};
}

// Holds numbers in GPU memory.
struct GpuFloats {
  CudaApi cuda = gpu_libraries()->cuda;
  Memory memory;

  GpuFloats(ProcessGroup& group, const std::vector<float>& values)
      : memory(group.allocate(values.size(), DataType::f32, DeviceType::cuda)) {
    set(values);
  }
  void set(const std::vector<float>& values) const {
    copy_now(cuda, memory.buffer().data, values.data(), values.size() * sizeof(float));
  }
  std::vector<float> get() const {
    std::vector<float> values(memory.buffer().count);
    copy_now(cuda, values.data(), memory.buffer().data, values.size() * sizeof(float));
    return values;
  }
};

}  // namespace ddp::test
