// Implements the functions for memory of libcuda.so.1. See fake_cuda.cpp.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "support/fake_gpu/fake_gpu.h"

using namespace fake_gpu;

namespace {

// Returns the error of a call that may block, or that changes the device's memory.
int unsafe_call_error() {
  const int error = context_error();
  return error == kCudaSuccess ? capture_error() : error;
}

// Holds ranges of host memory.
struct HostRanges {
  std::mutex mutex;
  std::map<const char*, std::size_t> ranges;  // address → bytes
};
// The program has registered this memory.
HostRanges& registered() {
  static auto* all = new HostRanges;
  return *all;
}
// cuMemHostAlloc() has allocated this memory.
HostRanges& pinned() {
  static auto* all = new HostRanges;
  return *all;
}

bool holds(HostRanges& all, const void* memory) {
  const auto* address = static_cast<const char*>(memory);
  const std::lock_guard lock(all.mutex);
  return std::ranges::any_of(all.ranges, [address](const auto& range) {
    return address >= range.first && address < range.first + range.second;
  });
}

bool is_pageable(const void* memory) {
  return device_of(memory) < 0 && !holds(pinned(), memory) && !holds(registered(), memory);
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
  const std::lock_guard lock(pinned().mutex);
  pinned().ranges[static_cast<char*>(*memory)] = bytes;
  ++counts().pinned;
  return kCudaSuccess;
}
EXPORT int cuMemFreeHost(void* memory) {
  hang_if_asked("cuMemFreeHost");
  RETURN_ERROR_OF(unsafe_call_error());
  drain_device(current_device());
  const std::lock_guard lock(pinned().mutex);
  if (pinned().ranges.erase(static_cast<char*>(memory)) == 0) return kInvalidValue;
  std::free(memory);
  --counts().pinned;
  return kCudaSuccess;
}
// As with CUDA, pageable memory is read before the call returns, or is written then.
EXPORT int cuMemcpyAsync(unsigned long long to, unsigned long long from, std::size_t bytes, void* stream) {
  RETURN_ERROR_OF(stream_error(stream));
  Stream& place = stream_of(stream);
  void* target = reinterpret_cast<void*>(to);
  const auto* source = reinterpret_cast<const std::byte*>(from);
  std::vector<std::byte> staged;
  const bool is_staged = is_pageable(source);
  if (is_staged) staged.assign(source, source + bytes);
  place.push([=, device = place.device, staged = std::move(staged)] {
    const void* first = is_staged ? staged.data() : source;
    if (may_use(device, target, bytes) && may_use(device, first, bytes)) std::memcpy(target, first, bytes);
  });
  if (is_pageable(target) && !place.captures()) place.queue.drain();
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
  if (!holds(registered(), block)) return kInvalidValue;
  *pointer = reinterpret_cast<unsigned long long>(block);
  return kCudaSuccess;
}
