// CudaApi is a table of the functions of the CUDA driver that the backend calls: the part of CUDA's stable binary
// interface (cuda.h) that is used. No other code of the runtime depends on CUDA. Tests open a library that simulates
// the driver, and change single entries.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/backend/nccl/shared_library.h"

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

inline constexpr unsigned kCudaTimedEvent = 0;
inline constexpr unsigned kCudaUntimedEvent = 2;  // costs less
inline constexpr unsigned kCudaHostPortable = 1;  // page-locked for every context of the process

// cudaStream_t and CUstream are the same; null is the default stream.
using CudaStreamHandle = void*;
using CudaEventHandle = void*;
using CudaContextHandle = void*;
using CudaModuleHandle = void*;
using CudaFunctionHandle = void*;
using CudaUuid = std::array<std::uint8_t, 16>;
inline constexpr int kNoCudaDevice = -1;

// A reference is a pointer in the binary interface, and so is an address of GPU memory (CUdeviceptr). The functions
// that find() looks up may be null.
struct CudaApi : SharedLibrary {
  // Opens the library, which stays open, and finds the functions in it.
  explicit CudaApi(const char* file);

  CudaStatus (*init)(unsigned flags) = require("cuInit");
  CudaStatus (*get_driver_version)(int& version) = find("cuDriverGetVersion");
  CudaStatus (*device_count)(int& count) = require("cuDeviceGetCount");
  CudaStatus (*get_device)(int& device, int number) = require("cuDeviceGet");
  CudaStatus (*get_bus_id)(char* text, int bytes, int device) = require("cuDeviceGetPCIBusId");
  CudaStatus (*get_uuid)(CudaUuid& uuid, int device) = find("cuDeviceGetUuid_v2");  // available since CUDA 11.4
  CudaStatus (*retain_context)(CudaContextHandle& context, int device) = require("cuDevicePrimaryCtxRetain");
  CudaStatus (*use_context)(CudaContextHandle context) = require("cuCtxSetCurrent");
  CudaStatus (*get_attribute)(void* value, int attribute, const void* memory) = require("cuPointerGetAttribute");

  CudaStatus (*get_priorities)(int& least, int& greatest) = require("cuCtxGetStreamPriorityRange");
  CudaStatus (*create_prior_stream)(CudaStreamHandle& stream, unsigned flags,
                                    int priority) = require("cuStreamCreateWithPriority");
  CudaStatus (*destroy_stream)(CudaStreamHandle stream) = require("cuStreamDestroy_v2");
  CudaStatus (*stream_wait_event)(CudaStreamHandle stream, CudaEventHandle event,
                                  unsigned flags) = require("cuStreamWaitEvent");
  CudaStatus (*get_capture_status)(CudaStreamHandle stream, int& status) = require("cuStreamIsCapturing");
  // Exchanges the calling thread's capture mode. With kCudaCaptureRelaxed, its calls do not disturb captures.
  CudaStatus (*exchange_capture_mode)(int& mode) = require("cuThreadExchangeStreamCaptureMode");

  CudaStatus (*create_event)(CudaEventHandle& event, unsigned flags) = require("cuEventCreate");
  CudaStatus (*destroy_event)(CudaEventHandle event) = require("cuEventDestroy_v2");
  CudaStatus (*record_event)(CudaEventHandle event, CudaStreamHandle stream) = require("cuEventRecord");
  // Returns `kCudaNotReady` while work that was on the stream before the event is not done.
  CudaStatus (*query_event)(CudaEventHandle event) = require("cuEventQuery");
  CudaStatus (*get_elapsed_time)(float& milliseconds, CudaEventHandle earlier,
                                 CudaEventHandle later) = require("cuEventElapsedTime");

  CudaStatus (*allocate)(void*& memory, std::size_t bytes) = require("cuMemAlloc_v2");
  // Finds the free memory and all memory of the calling thread's GPU, in bytes.
  CudaStatus (*memory_info)(std::size_t& free, std::size_t& total) = require("cuMemGetInfo_v2");
  CudaStatus (*release)(void* memory) = require("cuMemFree_v2");
  // Allocates page-locked host memory.
  CudaStatus (*allocate_pinned)(void*& memory, std::size_t bytes, unsigned flags) = require("cuMemHostAlloc");
  CudaStatus (*release_pinned)(void* memory) = require("cuMemFreeHost");
  // Copies between any two kinds of memory. With ordinary host memory, it may block until the copy is done.
  CudaStatus (*copy_async)(void* to, const void* from, std::size_t bytes,
                           CudaStreamHandle stream) = require("cuMemcpyAsync");
  CudaStatus (*fill_async)(void* memory, unsigned char value, std::size_t bytes,
                           CudaStreamHandle stream) = require("cuMemsetD8Async");
  CudaStatus (*register_host)(void* memory, std::size_t bytes, unsigned flags) = require("cuMemHostRegister_v2");
  CudaStatus (*get_host_address)(void*& seen_at, void* memory,
                                 unsigned flags) = require("cuMemHostGetDevicePointer_v2");
  // Writes a number in the stream's order, after the stream's earlier writes are visible. `place` is an address that
  // the GPU sees. Available since CUDA 11.7.
  CudaStatus (*write_number)(CudaStreamHandle stream, void* place, std::uint64_t number,
                             unsigned flags) = find("cuStreamWriteValue64_v2");

  // Compiles kernels from PTX text for the current GPU. The module stays loaded.
  CudaStatus (*load_module)(CudaModuleHandle& module, const char* text) = require("cuModuleLoadData");
  CudaStatus (*find_function)(CudaFunctionHandle& function, CudaModuleHandle module,
                              const char* name) = require("cuModuleGetFunction");
  // Puts a kernel on the stream. The parameters are pointers to those that the kernel declares, and are copied.
  CudaStatus (*launch_kernel)(CudaFunctionHandle function, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z,
                              unsigned threads_x, unsigned threads_y, unsigned threads_z, unsigned shared_bytes,
                              CudaStreamHandle stream, void** parameters, void** extra) = require("cuLaunchKernel");
  CudaStatus (*get_error_name)(CudaStatus status, const char*& name) = require("cuGetErrorName");

  int driver_version = 0;  // the newest CUDA that the driver supports, such as 12060 for 12.6; 0 if unknown

  CudaStatus bus_id(int device, std::string& bus_id) const;
  // Returns the UUID of the GPU, or of the MIG slice, or std::nullopt if the driver does not tell it.
  std::optional<CudaUuid> uuid(int device) const;
  // Sets the GPU of the calling thread and makes its primary context current, which CUDA's runtime library uses too.
  CudaStatus set_device(int device) const;
  // Finds the GPU that the memory belongs to. It is kNoCudaDevice if CUDA does not know the memory, such as ordinary
  // host memory.
  CudaStatus device_of(const void* memory, int& device) const;
  // Creates a stream of the highest priority that does not wait for the default stream.
  CudaStatus create_stream(CudaStreamHandle& stream) const;
  // Finds whether the stream's work goes into a CUDA graph instead of being done.
  CudaStatus is_capturing(CudaStreamHandle stream, bool& captures) const;
  // Measures the time between two timed events. Returns `kCudaNotReady` in the same case as query_event.
  CudaStatus seconds_between(CudaEventHandle earlier, CudaEventHandle later, double& seconds) const;
  // Lets GPUs write to ordinary host memory until the process ends, and returns its address as the GPUs see it. The
  // memory may have been mapped before.
  CudaStatus map_host(void* memory, std::size_t bytes, void*& seen_at) const;
  // Returns a name such as "CUDA_ERROR_OUT_OF_MEMORY".
  std::string error_name(CudaStatus status) const;
};

// Returns libcuda.so.1. It belongs to the driver and not to CUDA's toolkit, so any version works. It is opened once per
// process. Any thread may call the function.
const CudaApi& cuda_library();

}  // namespace ddp::internal
