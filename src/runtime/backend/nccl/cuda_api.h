// CudaApi: the CUDA calls that the backend makes, as a table (see nccl_api.h).
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace ddp {

// cudaError_t as a number; nccl_plugin.cpp checks the two that are named here.
using CudaStatus = int;
inline constexpr CudaStatus kCudaSuccess = 0;
inline constexpr CudaStatus kCudaNotReady = 600;

using CudaStreamHandle = void*;
enum class CopyDirection { to_device, to_host };

struct CudaApi {
  std::function<CudaStatus(int& count)> device_count;
  std::function<CudaStatus(int device, std::string& bus_id)> bus_id;
  // Of the calling thread.
  std::function<CudaStatus(int device)> set_device;

  // A stream that does not wait for the default stream.
  std::function<CudaStatus(CudaStreamHandle& stream)> create_stream;
  std::function<CudaStatus(CudaStreamHandle stream)> destroy_stream;
  // `kCudaNotReady` while the stream has work.
  std::function<CudaStatus(CudaStreamHandle stream)> query_stream;

  std::function<CudaStatus(void*& memory, std::size_t bytes)> allocate;
  std::function<CudaStatus(void* memory)> release;
  std::function<CudaStatus(void* to, const void* from, std::size_t bytes, CopyDirection direction,
                           CudaStreamHandle stream)>
      copy_async;

  // "cudaErrorInsufficientDriver" and the like.
  std::function<std::string(CudaStatus status)> error_name;
};

}  // namespace ddp
