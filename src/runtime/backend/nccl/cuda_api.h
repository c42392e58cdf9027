// CudaApi is a table of the functions of the CUDA driver that the backend calls. cuda_api.cpp fills it with the
// functions of libcuda.so.1; tests change single entries. No other code of the runtime depends on CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/backend/kernel_parameter.h"

namespace ddp::internal {

// This is CUresult as a number.
using CudaStatus = int;
inline constexpr CudaStatus kCudaSuccess = 0;
inline constexpr CudaStatus kCudaInvalidValue = 1;
inline constexpr CudaStatus kCudaOutOfMemory = 2;
inline constexpr CudaStatus kCudaInvalidHandle = 400;
inline constexpr CudaStatus kCudaNotReady = 600;
inline constexpr CudaStatus kCudaContextIsDestroyed = 709;
inline constexpr CudaStatus kCudaCaptureImplicit = 906;  // the default stream cannot be used while another one captures
inline constexpr int kCudaCaptureRelaxed = 2;

// cudaStream_t and CUstream are the same; null is the default stream.
using CudaStreamHandle = void*;
using CudaEventHandle = void*;
inline constexpr int kNoCudaDevice = -1;

using CudaModuleHandle = void*;
using CudaFunctionHandle = void*;

struct CudaApi {
  int driver_version = 0;  // the newest CUDA that the driver supports, such as 12060 for 12.6; 0 if unknown

  std::function<CudaStatus(int& count)> device_count;
  std::function<CudaStatus(int device, std::string& bus_id)> bus_id;
  // Finds the UUID of the GPU, or of the MIG slice. The function may be null.
  std::function<CudaStatus(int device, std::string& uuid)> uuid;
  // Sets the GPU of the calling thread and makes its primary context current, which CUDA's runtime library uses too.
  std::function<CudaStatus(int device)> set_device;
  // Finds the GPU that the memory belongs to. It is kNoCudaDevice if CUDA does not know the memory, such as ordinary
  // host memory.
  std::function<CudaStatus(const void* memory, int& device)> device_of;

  // Creates a stream of the highest priority that does not wait for the default stream.
  std::function<CudaStatus(CudaStreamHandle& stream)> create_stream;
  std::function<CudaStatus(CudaStreamHandle stream)> destroy_stream;
  std::function<CudaStatus(CudaStreamHandle stream, CudaEventHandle event)> stream_wait_event;
  // Finds whether the stream's work goes into a CUDA graph instead of being done.
  std::function<CudaStatus(CudaStreamHandle stream, bool& captures)> is_capturing;
  // Exchanges the calling thread's capture mode. With kCudaCaptureRelaxed, its calls do not disturb captures.
  std::function<CudaStatus(int& mode)> exchange_capture_mode;

  // These functions create events without times and events with times, which cost more.
  std::function<CudaStatus(CudaEventHandle& event)> create_event;
  std::function<CudaStatus(CudaEventHandle& event)> create_timed_event;
  std::function<CudaStatus(CudaEventHandle event)> destroy_event;
  std::function<CudaStatus(CudaEventHandle event, CudaStreamHandle stream)> record_event;
  // Returns `kCudaNotReady` while work that was on the stream before the event is not done.
  std::function<CudaStatus(CudaEventHandle event)> query_event;
  // Measures the time between two timed events. Returns `kCudaNotReady` in the same case as query_event.
  std::function<CudaStatus(CudaEventHandle earlier, CudaEventHandle later, double& seconds)> seconds_between;

  std::function<CudaStatus(void*& memory, std::size_t bytes)> allocate;
  // Finds the free memory and all memory of the calling thread's GPU, in bytes.
  std::function<CudaStatus(std::size_t& free, std::size_t& total)> memory_info;
  std::function<CudaStatus(void* memory)> release;
  // Allocates page-locked host memory.
  std::function<CudaStatus(void*& memory, std::size_t bytes)> allocate_pinned;
  std::function<CudaStatus(void* memory)> release_pinned;
  // Copies between any two kinds of memory. With ordinary host memory, it may block until the copy is done.
  std::function<CudaStatus(void* to, const void* from, std::size_t bytes, CudaStreamHandle stream)> copy_async;
  std::function<CudaStatus(void* memory, std::size_t bytes, CudaStreamHandle stream)> zero_async;

  // Lets GPUs write to ordinary host memory until the process ends, and returns its address as the GPUs see it. The
  // memory may have been mapped before.
  std::function<CudaStatus(void* memory, std::size_t bytes, void*& seen_at)> map_host;
  // Writes a number in the stream's order, after the stream's earlier writes are visible. `place` is an address that
  // the GPU sees. The function is empty if this driver cannot do it.
  std::function<CudaStatus(CudaStreamHandle stream, void* place, std::uint64_t number)> write_number;

  // Compiles kernels from PTX text for the current GPU. The module stays loaded.
  std::function<CudaStatus(CudaModuleHandle& module, const char* text)> load_module;
  std::function<CudaStatus(CudaFunctionHandle& function, CudaModuleHandle module, const char* name)> find_function;
  // Puts a kernel on the stream. The parameters are those that the kernel declares, and are copied.
  std::function<CudaStatus(CudaFunctionHandle function, unsigned blocks, unsigned threads,
                           std::span<const KernelParameter> parameters, CudaStreamHandle stream)>
      launch;

  // Returns a name such as "CUDA_ERROR_OUT_OF_MEMORY".
  std::function<std::string(CudaStatus status)> error_name;
};

struct CudaLibrary {
  CudaApi api;
  std::string obstacle;  // why CUDA cannot be used, empty if it can
};

// Opens the library and finds the functions in it. The library stays open.
CudaLibrary open_cuda(const char* file);

// Returns libcuda.so.1. It belongs to the driver and not to CUDA's toolkit, so any version works. It is opened once per
// process. Any thread may call the function.
const CudaLibrary& cuda_library();

}  // namespace ddp::internal
