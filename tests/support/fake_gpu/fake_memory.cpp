// Implements the functions for memory of libcuda.so.1. See fake_cuda.cpp.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "support/fake_gpu/fake_gpu.h"

using namespace fake_gpu;

namespace {

// Returns the error of a call that uses this stream.
int stream_error(void* stream) {
  if (const int error = context_error(); error != kCudaSuccess) return error;
  return is_stream(stream) ? kCudaSuccess : kInvalidHandle;
}

// Returns the error of a call that may block, or that changes the device's memory.
int unsafe_call_error() {
  const int error = context_error();
  return error == kCudaSuccess ? capture_error() : error;
}

struct Registered {
  std::mutex mutex;
  std::map<const char*, std::size_t> ranges;  // address → bytes
};
Registered& registered() {
  static auto* all = new Registered;
  return *all;
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))
#define RETURN_ERROR_OF(call) \
  if (const int error = (call); error != kCudaSuccess) return error

EXPORT int cuMemAlloc_v2(unsigned long long* pointer, std::size_t bytes) {
  RETURN_ERROR_OF(unsafe_call_error());
  if (!fits(bytes)) return kOutOfMemory;
  void* made = allocate(bytes);
  *pointer = reinterpret_cast<unsigned long long>(made);
  return made == nullptr ? kOutOfMemory : kCudaSuccess;
}
EXPORT int cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  RETURN_ERROR_OF(context_error());
  *free = free_memory();
  *total = device_memory();
  return kCudaSuccess;
}
// Waits for the whole device, as CUDA may do.
EXPORT int cuMemFree_v2(unsigned long long pointer) {
  hang_if_asked("cuMemFree_v2");
  RETURN_ERROR_OF(unsafe_call_error());
  drain_device(current_device());
  return release(reinterpret_cast<void*>(pointer)) ? kCudaSuccess : kInvalidValue;
}
EXPORT int cuMemHostAlloc(void** memory, std::size_t bytes, unsigned) {
  RETURN_ERROR_OF(unsafe_call_error());
  *memory = std::malloc(bytes);
  std::memset(*memory, 0x5a, bytes);
  ++counts().pinned;
  return kCudaSuccess;
}
EXPORT int cuMemFreeHost(void* memory) {
  hang_if_asked("cuMemFreeHost");
  RETURN_ERROR_OF(unsafe_call_error());
  drain_device(current_device());
  std::free(memory);
  --counts().pinned;
  return kCudaSuccess;
}
EXPORT int cuMemcpyAsync(unsigned long long to, unsigned long long from, std::size_t bytes, void* stream) {
  RETURN_ERROR_OF(stream_error(stream));
  Stream& place = stream_of(stream);
  place.push([=, device = place.device] {
    void* target = reinterpret_cast<void*>(to);
    const void* source = reinterpret_cast<const void*>(from);
    if (may_use(device, target, bytes) && may_use(device, source, bytes)) std::memcpy(target, source, bytes);
  });
  return kCudaSuccess;
}
EXPORT int cuMemsetD8Async(unsigned long long pointer, unsigned char value, std::size_t bytes, void* stream) {
  RETURN_ERROR_OF(stream_error(stream));
  Stream& place = stream_of(stream);
  place.push([=, device = place.device] {
    if (may_use(device, reinterpret_cast<void*>(pointer), bytes)) {
      std::memset(reinterpret_cast<void*>(pointer), value, bytes);
    }
  });
  return kCudaSuccess;
}
EXPORT int cuMemHostRegister_v2(void* block, std::size_t bytes, unsigned) {
  RETURN_ERROR_OF(unsafe_call_error());
  const auto* first = static_cast<const char*>(block);
  const std::lock_guard lock(registered().mutex);
  for (const auto& [address, size] : registered().ranges) {
    if (first < address + size && address < first + bytes) return kAlreadyRegistered;
  }
  registered().ranges[first] = bytes;
  return kCudaSuccess;
}
EXPORT int cuMemHostGetDevicePointer_v2(unsigned long long* pointer, void* block, unsigned) {
  RETURN_ERROR_OF(context_error());
  const auto* address = static_cast<const char*>(block);
  const std::lock_guard lock(registered().mutex);
  for (const auto& [first, size] : registered().ranges) {
    if (address < first || address >= first + size) continue;
    *pointer = reinterpret_cast<unsigned long long>(block);
    return kCudaSuccess;
  }
  return kInvalidValue;
}
