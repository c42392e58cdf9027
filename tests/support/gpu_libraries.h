// Opens the driver and NCCL of GPUs in software (support/fake_gpu). With DDP_TEST_GPU=1 it opens the libraries of this
// computer, so that the same tests run on a real GPU.
#pragma once

#include <ddp/process_group.h>

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/backend/nccl/cuda_api.h"
#include "runtime/backend/nccl/nccl_api.h"
#include "runtime/backend/nccl/nccl_backend.h"
#include "support/deadline.h"
#include "support/paths.h"
#include "support/replace.h"
#include "support/require.h"
#include "support/typed_values.h"

namespace ddp::test {

using namespace internal;

inline bool on_real_gpu() {
  const char* value = std::getenv("DDP_TEST_GPU");
  return value != nullptr && std::string_view(value) == "1";
}

// Returns the numbers of ranks that tests may use. On a real GPU, DDP_TEST_GPU_RANKS is the only one.
inline std::vector<int> gpu_rank_counts(std::vector<int> in_software) {
  if (!on_real_gpu()) return in_software;
  const char* ranks = std::getenv("DDP_TEST_GPU_RANKS");
  return {ranks == nullptr ? 1 : std::atoi(ranks)};
}

inline std::string gpu_library(const std::string& name) {
  return on_real_gpu() ? name : fake_gpu_directory() + "/" + name;
}

// Returns a new table, whose entries the test may replace.
inline std::shared_ptr<GpuLibraries> gpu_libraries() {
  // As the runtime's own, these are never destroyed: threads that are left behind may use them while the process ends.
  static const CudaApi& cuda = *[] {
    ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);  // as ddplaunch does; the driver reads it when it is opened
    return new CudaApi(gpu_library("libcuda.so.1").c_str());
  }();
  static const NcclApi& nccl = *new NcclApi(gpu_library("libnccl.so.2").c_str());
  require(cuda.obstacle().empty(), cuda.obstacle());
  require(nccl.obstacle().empty(), nccl.obstacle());
  return std::make_shared<GpuLibraries>(GpuLibraries{nccl, cuda});
}

// Returns a function of the driver, or of its simulation, that the runtime does not use.
template <typename Function>
Function* gpu_function(const char* name) {
  void* library = ::dlopen(gpu_library("libcuda.so.1").c_str(), RTLD_NOW | RTLD_LOCAL);
  require(library != nullptr, "the driver cannot be opened");
  void* function = ::dlsym(library, name);
  require(function != nullptr, std::string("there is no ") + name);
  return reinterpret_cast<Function*>(function);
}

// Holds up a stream of the simulated GPU until release() or the end.
class HeldStream {
 public:
  explicit HeldStream(CudaStreamHandle stream) {
    // The stream may still wait when the test has failed.
    const auto wait = [](void* data) {
      const std::unique_ptr<std::shared_future<void>> released(static_cast<std::shared_future<void>*>(data));
      released->wait();
    };
    gpu_function<int(void*, void (*)(void*), void*)>("cuLaunchHostFunc")(
        stream, wait, new std::shared_future<void>(release_.get_future()));
  }
  ~HeldStream() { release(); }
  HeldStream(const HeldStream&) = delete;
  HeldStream& operator=(const HeldStream&) = delete;

  void release() {
    if (!std::exchange(is_released_, true)) release_.set_value();
  }

 private:
  std::promise<void> release_;
  bool is_released_ = false;
};

// Holds a stream that the group is given, as a program does.
class ProgramStream {
 public:
  explicit ProgramStream(ProcessGroup& group) : group_(group) {}
  ~ProgramStream() { group_.forget(stream()); }
  ProgramStream(const ProgramStream&) = delete;
  ProgramStream& operator=(const ProgramStream&) = delete;

  const CudaApi& cuda() const { return cuda_; }
  CudaStreamHandle handle() const { return stream_.handle(); }
  Stream stream() const { return Stream::from_handle(handle()); }

 private:
  ProcessGroup& group_;  // must not have ended when the stream does
  const CudaApi cuda_ = gpu_libraries()->cuda;
  const CudaStream stream_{cuda_};
};

// Copies between host and GPU, and returns when the copy is done.
inline void copy_now(const CudaApi& cuda, void* to, const void* from, std::size_t bytes) {
  CudaStream stream(cuda);
  CudaEvents events(cuda);
  require_cuda(cuda, cuda.copy_async(to, from, bytes, stream.handle()), "copy");
  events.finish(stream.handle(), kPatience);
}

// Returns the GPU memory of the group, for values.
inline DeviceMemory gpu_memory(ProcessGroup& group) {
  const CudaApi cuda = gpu_libraries()->cuda;
  return {[&group](std::size_t bytes) { return group.allocate(bytes, DataType::u8, DeviceType::cuda); },
          [cuda](void* to, const void* from, std::size_t bytes) { copy_now(cuda, to, from, bytes); }};
}

}  // namespace ddp::test
