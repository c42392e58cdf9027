// Implements the part of CUDA's runtime library that examples/train_cuda.cu uses, on the GPU in software
// (support/fake_gpu). A C++ compiler builds the example, and its kernels run on the stream's thread.
#pragma once

#include <cmath>
#include <cstddef>
#include <functional>

#define __global__
#define __device__

struct dim3 {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;
  dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

inline thread_local dim3 blockIdx;
inline thread_local dim3 blockDim;
inline thread_local dim3 threadIdx;

using cudaStream_t = struct CUstream_st*;
enum cudaError_t { cudaSuccess = 0 };

struct cudaLaunchConfig_t {
  dim3 gridDim;
  dim3 blockDim;
  std::size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
};

extern "C" {
int cuStreamCreate(void** stream, unsigned flags);
int cuStreamDestroy_v2(void* stream);
int cuStreamSynchronize(void* stream);
int cuLaunchHostFunc(void* stream, void (*function)(void*), void* data);
}

namespace software_cuda {

// Puts a function on a stream.
inline cudaError_t put(cudaStream_t stream, std::function<void()> action) {
  const auto run = [](void* data) {
    const auto* held = static_cast<std::function<void()>*>(data);
    (*held)();
    delete held;
  };
  return static_cast<cudaError_t>(cuLaunchHostFunc(stream, run, new std::function<void()>(std::move(action))));
}

}  // namespace software_cuda

inline const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess ? "no error" : "an error";
}
inline cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return static_cast<cudaError_t>(cuStreamCreate(reinterpret_cast<void**>(stream), 0));
}
inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return static_cast<cudaError_t>(cuStreamDestroy_v2(stream));
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return static_cast<cudaError_t>(cuStreamSynchronize(stream));
}

template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments... arguments) {
  return software_cuda::put(config->stream, [config = *config, kernel, arguments...] {
    blockDim = config.blockDim;
    for (blockIdx.x = 0; blockIdx.x < config.gridDim.x; ++blockIdx.x) {
      for (threadIdx.x = 0; threadIdx.x < config.blockDim.x; ++threadIdx.x) kernel(arguments...);
    }
  });
}
