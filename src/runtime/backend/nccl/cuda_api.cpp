// This file declares the part of CUDA's stable binary interface (cuda.h) that is used.
#include "runtime/backend/nccl/cuda_api.h"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/backend/nccl/nccl_errors.h"
#include "runtime/backend/nccl/shared_library.h"

namespace ddp::internal {
namespace {

using Device = int;
using Address = unsigned long long;  // CUdeviceptr
using Handle = void*;                // CUcontext, CUstream, CUevent

constexpr unsigned kStreamNonBlocking = 1;
constexpr unsigned kEventDisableTiming = 2;
constexpr unsigned kHostPortable = 1;  // page-locked for every context of the process
constexpr unsigned kHostMapped = 2;
constexpr CudaStatus kAlreadyRegistered = 712;
constexpr int kAttributeDeviceOrdinal = 9;

// Functions that find() returned may be null.
struct CudaFunctions : SharedLibrary {
  using SharedLibrary::SharedLibrary;

  CudaStatus (*init)(unsigned flags) = require("cuInit");
  CudaStatus (*driver_get_version)(int* version) = find("cuDriverGetVersion");
  CudaStatus (*device_get_count)(int* count) = require("cuDeviceGetCount");
  CudaStatus (*device_get)(Device* device, int ordinal) = require("cuDeviceGet");
  CudaStatus (*device_get_bus_id)(char* text, int bytes, Device device) = require("cuDeviceGetPCIBusId");
  CudaStatus (*device_get_uuid)(std::array<unsigned char, 16>* uuid,
                                Device device) = find("cuDeviceGetUuid_v2");  // available since CUDA 11.4
  CudaStatus (*primary_context_retain)(Handle* context, Device device) = require("cuDevicePrimaryCtxRetain");
  CudaStatus (*context_set_current)(Handle context) = require("cuCtxSetCurrent");
  CudaStatus (*pointer_get_attribute)(void* value, int attribute, Address pointer) = require("cuPointerGetAttribute");
  CudaStatus (*stream_priority_range)(int* least, int* greatest) = require("cuCtxGetStreamPriorityRange");
  CudaStatus (*stream_create)(Handle* stream, unsigned flags, int priority) = require("cuStreamCreateWithPriority");
  CudaStatus (*stream_destroy)(Handle stream) = require("cuStreamDestroy_v2");
  CudaStatus (*stream_wait_event)(Handle stream, Handle event, unsigned flags) = require("cuStreamWaitEvent");
  CudaStatus (*stream_is_capturing)(Handle stream, int* status) = require("cuStreamIsCapturing");
  CudaStatus (*thread_exchange_capture_mode)(int* mode) = require("cuThreadExchangeStreamCaptureMode");
  CudaStatus (*event_create)(Handle* event, unsigned flags) = require("cuEventCreate");
  CudaStatus (*event_destroy)(Handle event) = require("cuEventDestroy_v2");
  CudaStatus (*event_record)(Handle event, Handle stream) = require("cuEventRecord");
  CudaStatus (*event_query)(Handle event) = require("cuEventQuery");
  CudaStatus (*event_elapsed_time)(float* milliseconds, Handle earlier, Handle later) = require("cuEventElapsedTime");
  CudaStatus (*memory_allocate)(Address* memory, std::size_t bytes) = require("cuMemAlloc_v2");
  CudaStatus (*memory_free)(Address memory) = require("cuMemFree_v2");
  CudaStatus (*memory_get_info)(std::size_t* free, std::size_t* total) = require("cuMemGetInfo_v2");
  CudaStatus (*host_allocate)(void** memory, std::size_t bytes, unsigned flags) = require("cuMemHostAlloc");
  CudaStatus (*host_free)(void* memory) = require("cuMemFreeHost");
  CudaStatus (*memory_copy_async)(Address to, Address from, std::size_t bytes,
                                  Handle stream) = require("cuMemcpyAsync");
  CudaStatus (*memory_set_async)(Address memory, unsigned char value, std::size_t bytes,
                                 Handle stream) = require("cuMemsetD8Async");
  CudaStatus (*host_register)(void* memory, std::size_t bytes, unsigned flags) = require("cuMemHostRegister_v2");
  CudaStatus (*host_get_device_pointer)(Address* seen_at, void* memory,
                                        unsigned flags) = require("cuMemHostGetDevicePointer_v2");
  CudaStatus (*stream_write_value)(Handle stream, Address place, std::uint64_t value,
                                   unsigned flags) = find("cuStreamWriteValue64_v2");  // available since CUDA 11.7
  CudaStatus (*module_load_data)(Handle* module, const void* image) = require("cuModuleLoadData");
  CudaStatus (*module_get_function)(Handle* function, Handle module, const char* name) = require("cuModuleGetFunction");
  CudaStatus (*launch_kernel)(Handle function, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z,
                              unsigned threads_x, unsigned threads_y, unsigned threads_z, unsigned shared_bytes,
                              Handle stream, void** parameters, void** extra) = require("cuLaunchKernel");
  CudaStatus (*get_error_name)(CudaStatus status, const char** name) = require("cuGetErrorName");
};

Address address(const void* memory) {
  return reinterpret_cast<Address>(memory);
}

std::string name_of(const CudaFunctions& f, CudaStatus status) {
  const char* name = nullptr;
  f.get_error_name(status, &name);
  return name == nullptr ? "CUDA error " + std::to_string(status) : name;
}

// Makes the device's primary context, which CUDA's runtime library uses too, current for this thread. It is kept until
// the process ends, because releasing the last reference would destroy the program's data on the GPU.
CudaStatus set_device(const CudaFunctions& f, int ordinal) {
  // Threads of the backend may still call this while the process ends, so nothing of it is destroyed.
  struct Contexts {
    std::mutex mutex;
    std::map<int, Handle> by_gpu;
  };
  static auto* contexts = new Contexts;
  const std::lock_guard lock(contexts->mutex);
  Handle& context = contexts->by_gpu[ordinal];
  if (context == nullptr) {
    Device device = 0;
    if (const CudaStatus status = f.device_get(&device, ordinal); status != kCudaSuccess) return status;
    if (const CudaStatus status = f.primary_context_retain(&context, device); status != kCudaSuccess) return status;
  }
  return f.context_set_current(context);
}

// Returns a text such as "5f1c0a2b-0123-4567-89ab-cdef01234567", as nvidia-smi shows it.
std::string uuid_text(const std::array<unsigned char, 16>& uuid) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += kDigits[uuid[i] >> 4];
    text += kDigits[uuid[i] & 15];
  }
  return text;
}

CudaStatus launch(const CudaFunctions& f, CudaFunctionHandle function, unsigned blocks, unsigned threads,
                  std::span<const KernelParameter> parameters, CudaStreamHandle stream) {
  std::vector<void*> values;
  for (const KernelParameter& parameter : parameters) values.push_back(const_cast<void*>(parameter.value));
  return f.launch_kernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, values.data(), nullptr);
}

CudaApi table_of(const std::shared_ptr<const CudaFunctions>& f) {
  CudaApi api;
  if (f->driver_get_version != nullptr) f->driver_get_version(&api.driver_version);
  api.device_count = [f](int& count) { return f->device_get_count(&count); };
  api.bus_id = [f](int ordinal, std::string& bus_id) {
    std::array<char, 32> text{};
    Device device = 0;
    if (const CudaStatus status = f->device_get(&device, ordinal); status != kCudaSuccess) return status;
    const CudaStatus status = f->device_get_bus_id(text.data(), static_cast<int>(text.size()), device);
    bus_id = text.data();
    return status;
  };
  if (f->device_get_uuid != nullptr) {
    api.uuid = [f](int ordinal, std::string& text) {
      std::array<unsigned char, 16> uuid{};
      Device device = 0;
      if (const CudaStatus status = f->device_get(&device, ordinal); status != kCudaSuccess) return status;
      const CudaStatus status = f->device_get_uuid(&uuid, device);
      text = uuid_text(uuid);
      return status;
    };
  }
  api.set_device = [f](int ordinal) { return set_device(*f, ordinal); };
  api.device_of = [f](const void* memory, int& device) {
    device = kNoCudaDevice;
    const CudaStatus status = f->pointer_get_attribute(&device, kAttributeDeviceOrdinal, address(memory));
    if (device < 0) device = kNoCudaDevice;
    return status == kCudaInvalidValue ? kCudaSuccess : status;
  };
  api.create_stream = [f](CudaStreamHandle& stream) {
    int least = 0;
    int greatest = 0;
    if (const CudaStatus status = f->stream_priority_range(&least, &greatest); status != kCudaSuccess) return status;
    return f->stream_create(&stream, kStreamNonBlocking, greatest);
  };
  api.destroy_stream = f->stream_destroy;
  api.stream_wait_event = [f](CudaStreamHandle stream, CudaEventHandle event) {
    return f->stream_wait_event(stream, event, 0);
  };
  api.is_capturing = [f](CudaStreamHandle stream, bool& captures) {
    int capture_status = 0;  // 0 means that the stream does not capture
    const CudaStatus status = f->stream_is_capturing(stream, &capture_status);
    captures = capture_status != 0;
    return status;
  };
  api.exchange_capture_mode = [f](int& mode) { return f->thread_exchange_capture_mode(&mode); };
  api.create_event = [f](CudaEventHandle& event) { return f->event_create(&event, kEventDisableTiming); };
  api.create_timed_event = [f](CudaEventHandle& event) { return f->event_create(&event, 0); };
  api.destroy_event = f->event_destroy;
  api.record_event = f->event_record;
  api.query_event = f->event_query;
  api.seconds_between = [f](CudaEventHandle earlier, CudaEventHandle later, double& seconds) {
    float milliseconds = 0;
    const CudaStatus status = f->event_elapsed_time(&milliseconds, earlier, later);
    seconds = static_cast<double>(milliseconds) * 1e-3;
    return status;
  };
  api.allocate = [f](void*& memory, std::size_t bytes) {
    Address made = 0;
    const CudaStatus status = f->memory_allocate(&made, bytes);
    memory = reinterpret_cast<void*>(made);  // NOLINT(performance-no-int-to-ptr): CUDA's addresses are integers
    return status;
  };
  api.memory_info = [f](std::size_t& free, std::size_t& total) { return f->memory_get_info(&free, &total); };
  api.release = [f](void* memory) { return f->memory_free(address(memory)); };
  api.allocate_pinned = [f](void*& memory, std::size_t bytes) {
    return f->host_allocate(&memory, bytes, kHostPortable);
  };
  api.release_pinned = f->host_free;
  api.copy_async = [f](void* to, const void* from, std::size_t bytes, CudaStreamHandle stream) {
    return f->memory_copy_async(address(to), address(from), bytes, stream);
  };
  api.zero_async = [f](void* memory, std::size_t bytes, CudaStreamHandle stream) {
    return f->memory_set_async(address(memory), 0, bytes, stream);
  };
  api.map_host = [f](void* memory, std::size_t bytes, void*& seen_at) {
    const CudaStatus status = f->host_register(memory, bytes, kHostPortable | kHostMapped);
    if (status != kCudaSuccess && status != kAlreadyRegistered) return status;
    Address made = 0;
    const CudaStatus found = f->host_get_device_pointer(&made, memory, 0);
    seen_at = reinterpret_cast<void*>(made);  // NOLINT(performance-no-int-to-ptr): CUDA's addresses are integers
    return found;
  };
  if (f->stream_write_value != nullptr) {
    api.write_number = [f](CudaStreamHandle stream, void* place, std::uint64_t number) {
      return f->stream_write_value(stream, address(place), number, 0);
    };
  }
  api.load_module = [f](CudaModuleHandle& module, const char* text) { return f->module_load_data(&module, text); };
  api.find_function = [f](CudaFunctionHandle& function, CudaModuleHandle module, const char* name) {
    return f->module_get_function(&function, module, name);
  };
  api.launch = [f](CudaFunctionHandle function, unsigned blocks, unsigned threads,
                   std::span<const KernelParameter> parameters,
                   CudaStreamHandle stream) { return launch(*f, function, blocks, threads, parameters, stream); };
  api.error_name = [f](CudaStatus status) { return name_of(*f, status); };
  return api;
}

}  // namespace

CudaLibrary open_cuda(const char* file) {
  const auto functions = std::make_shared<const CudaFunctions>(file);
  const std::string& obstacle = functions->obstacle();
  if (obstacle.find("No such file") != std::string::npos) return {{}, kNoDriverText};
  if (!obstacle.empty()) return {{}, driver_unusable_text(obstacle)};
  if (const CudaStatus status = functions->init(0); status != kCudaSuccess) {
    return {{}, driver_not_initialized_text(name_of(*functions, status))};
  }
  return {table_of(functions), ""};
}

const CudaLibrary& cuda_library() {
  // It is never destroyed, as the contexts in set_device().
  static const auto* library = new CudaLibrary(open_cuda("libcuda.so.1"));
  return *library;
}

}  // namespace ddp::internal
