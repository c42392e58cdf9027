// CudaApi: the functions of the CUDA driver that the backend calls, as a table. cuda_api.cpp fills it with those of
// libcuda.so.1; tests change single entries. Nothing else in this project knows CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace ddp::internal {

// CUresult as a number.
using CudaStatus = int;
inline constexpr CudaStatus kCudaSuccess = 0;
inline constexpr CudaStatus kCudaNotReady = 600;

// cudaStream_t and CUstream are the same; null is the default stream.
using CudaStreamHandle = void*;
using CudaEventHandle = void*;
inline constexpr int kNoCudaDevice = -1;

struct CudaApi {
  std::function<CudaStatus(int& count)> device_count;
  std::function<CudaStatus(int device, std::string& bus_id)> bus_id;
  // Of the calling thread: the context that CUDA's runtime library uses, too.
  std::function<CudaStatus(int device)> set_device;
  // The GPU that memory belongs to; kNoCudaDevice if CUDA does not know it, as ordinary host memory.
  std::function<CudaStatus(const void* memory, int& device)> device_of;

  // A stream that does not wait for the default stream.
  std::function<CudaStatus(CudaStreamHandle& stream)> create_stream;
  std::function<CudaStatus(CudaStreamHandle stream)> destroy_stream;
  std::function<CudaStatus(CudaStreamHandle stream, CudaEventHandle event)> stream_wait_event;

  // Events without times, and with them, which cost more.
  std::function<CudaStatus(CudaEventHandle& event)> create_event;
  std::function<CudaStatus(CudaEventHandle& event)> create_timed_event;
  std::function<CudaStatus(CudaEventHandle event)> destroy_event;
  std::function<CudaStatus(CudaEventHandle event, CudaStreamHandle stream)> record_event;
  // `kCudaNotReady` while what was on the stream before the event has work.
  std::function<CudaStatus(CudaEventHandle event)> query_event;
  // Between two timed ones; `kCudaNotReady` as above.
  std::function<CudaStatus(CudaEventHandle earlier, CudaEventHandle later, double& seconds)> seconds_between;

  std::function<CudaStatus(void*& memory, std::size_t bytes)> allocate;
  std::function<CudaStatus(void* memory)> release;
  // Page-locked host memory.
  std::function<CudaStatus(void*& memory, std::size_t bytes)> allocate_pinned;
  std::function<CudaStatus(void* memory)> release_pinned;
  // Between any two kinds of memory. With ordinary host memory it may block until the copy is done.
  std::function<CudaStatus(void* to, const void* from, std::size_t bytes, CudaStreamHandle stream)> copy_async;
  std::function<CudaStatus(void* memory, std::size_t bytes, CudaStreamHandle stream)> zero_async;

  // Ordinary host memory that GPUs may write from now on, until the process ends, and where they see it. It may have
  // been mapped before.
  std::function<CudaStatus(void* memory, std::size_t bytes, void*& seen_at)> map_host;
  // In the stream's order, after all that it holds is visible; `place` is one that the GPU sees. Empty: this driver
  // cannot do it.
  std::function<CudaStatus(CudaStreamHandle stream, void* place, std::uint64_t number)> write_number;

  // "CUDA_ERROR_OUT_OF_MEMORY" and the like.
  std::function<std::string(CudaStatus status)> error_name;
};

struct CudaLibrary {
  CudaApi api;
  std::string obstacle;  // why it cannot be used; empty: it can
};

// Looks the functions up. The library stays open.
CudaLibrary open_cuda(const char* file);

// libcuda.so.1, which belongs to the driver and not to CUDA's toolkit: any version. Opened once a process, any thread.
const CudaLibrary& cuda_library();

}  // namespace ddp::internal
