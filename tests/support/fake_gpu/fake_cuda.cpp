// Implements the part of libcuda.so.1 that the runtime uses.
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <future>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "support/fake_gpu/fake_gpu.h"

namespace fake_gpu {
namespace {

constexpr int kSuccess = 0;
constexpr int kInvalidValue = 1;
constexpr int kOutOfMemory = 2;
constexpr int kNoDevice = 100;
constexpr int kInvalidContext = 201;
constexpr int kNotReady = 600;

// Counts the records of an event, and how many of them are done.
struct Event {
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t recorded = 0;
  std::size_t done = 0;
  std::chrono::steady_clock::time_point done_at;
};

struct Memory {
  std::mutex mutex;
  std::map<const char*, std::pair<std::size_t, int>> blocks;  // address → size in bytes, device
};

// The object is never destroyed, because threads may be left behind at the end of the process.
Memory& memory() {
  static auto* all = new Memory;
  return *all;
}

thread_local int current_device = -1;

int device_count() {
  const char* text = std::getenv("FAKE_GPU_COUNT");
  return text == nullptr ? 8 : std::atoi(text);
}

// All users of an event share it.
using EventPointer = std::shared_ptr<Event>;
EventPointer& event_of(void* handle) {
  return *static_cast<EventPointer*>(handle);
}

}  // namespace

Stream::Stream() : thread_([this] { serve(); }) {}

Stream::~Stream() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Stream::push(std::function<void()> action) {
  {
    const std::lock_guard lock(mutex_);
    actions_.push_back(std::move(action));
  }
  changed_.notify_one();
}

void Stream::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return closed_ || !actions_.empty(); });
    if (actions_.empty()) return;
    const auto action = std::move(actions_.front());
    actions_.pop_front();
    lock.unlock();
    action();
    lock.lock();
  }
}

Stream& stream_of(void* handle) {
  static auto* default_stream = new Stream;
  return handle == nullptr ? *default_stream : *static_cast<Stream*>(handle);
}

void* allocate(std::size_t bytes) {
  if (current_device < 0) return nullptr;
  void* block = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(block, 0x5a, bytes);
  const std::lock_guard lock(memory().mutex);
  memory().blocks[static_cast<char*>(block)] = {bytes, current_device};
  return block;
}

bool release(void* block) {
  {
    const std::lock_guard lock(memory().mutex);
    if (memory().blocks.erase(static_cast<char*>(block)) == 0) return false;
  }
  std::free(block);
  return true;
}

}  // namespace fake_gpu

using namespace fake_gpu;

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int cuInit(unsigned) {
  return device_count() > 0 ? kSuccess : kNoDevice;
}
EXPORT int cuDeviceGetCount(int* count) {
  *count = device_count();
  return kSuccess;
}
EXPORT int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return ordinal >= 0 && ordinal < device_count() ? kSuccess : 101;
}
EXPORT int cuDeviceGetPCIBusId(char* text, int bytes, int device) {
  std::snprintf(text, static_cast<std::size_t>(bytes), "0000:%02x:00.0", device);
  return kSuccess;
}
// Derives the UUID from the host's name and the device, as each GPU has another one.
EXPORT int cuDeviceGetUuid_v2(std::array<unsigned char, 16>* uuid, int device) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const std::size_t hash = std::hash<std::string_view>()(host.data());
  std::memcpy(uuid->data(), &hash, sizeof hash);
  uuid->back() = static_cast<unsigned char>(device);
  return kSuccess;
}
// A context is its device's number plus one.
EXPORT int cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = reinterpret_cast<void*>(static_cast<std::size_t>(device) + 1);
  return kSuccess;
}
EXPORT int cuCtxSetCurrent(void* context) {
  current_device = static_cast<int>(reinterpret_cast<std::size_t>(context)) - 1;
  return kSuccess;
}
EXPORT int cuPointerGetAttribute(void* value, int, unsigned long long pointer) {
  const std::lock_guard lock(memory().mutex);
  const auto* address = reinterpret_cast<const char*>(pointer);
  auto block = memory().blocks.upper_bound(address);
  if (block == memory().blocks.begin()) return kInvalidValue;
  --block;
  if (address >= block->first + block->second.first) return kInvalidValue;
  *static_cast<int*>(value) = block->second.second;
  return kSuccess;
}
EXPORT int cuStreamCreate(void** stream, unsigned) {
  if (current_device < 0) return kInvalidContext;
  *stream = new Stream;
  return kSuccess;
}
EXPORT int cuStreamDestroy_v2(void* stream) {
  delete static_cast<Stream*>(stream);
  return kSuccess;
}
EXPORT int cuStreamSynchronize(void* stream) {
  std::promise<void> done;
  stream_of(stream).push([&done] { done.set_value(); });
  done.get_future().wait();
  return kSuccess;
}
EXPORT int cuLaunchHostFunc(void* stream, void (*function)(void*), void* data) {
  stream_of(stream).push([function, data] { function(data); });
  return kSuccess;
}
EXPORT int cuEventCreate(void** event, unsigned) {
  if (current_device < 0) return kInvalidContext;
  *event = new EventPointer(std::make_shared<Event>());
  return kSuccess;
}
EXPORT int cuEventDestroy_v2(void* event) {
  delete static_cast<EventPointer*>(event);
  return kSuccess;
}
EXPORT int cuEventRecord(void* handle, void* stream) {
  const EventPointer event = event_of(handle);
  std::size_t number = 0;
  {
    const std::lock_guard lock(event->mutex);
    number = ++event->recorded;
  }
  stream_of(stream).push([event, number] {
    const std::lock_guard lock(event->mutex);
    event->done = number;
    event->done_at = std::chrono::steady_clock::now();
    event->changed.notify_all();
  });
  return kSuccess;
}
EXPORT int cuEventQuery(void* handle) {
  const EventPointer event = event_of(handle);
  const std::lock_guard lock(event->mutex);
  return event->done >= event->recorded ? kSuccess : kNotReady;
}
EXPORT int cuEventElapsedTime(float* milliseconds, void* earlier, void* later) {
  std::array<std::chrono::steady_clock::time_point, 2> times;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const EventPointer event = event_of(i == 0 ? earlier : later);
    const std::lock_guard lock(event->mutex);
    if (event->recorded == 0) return kInvalidValue;
    if (event->done < event->recorded) return kNotReady;
    times[i] = event->done_at;
  }
  *milliseconds = std::chrono::duration<float, std::milli>(times[1] - times[0]).count();
  return kSuccess;
}
EXPORT int cuStreamWaitEvent(void* stream, void* handle, unsigned) {
  const EventPointer event = event_of(handle);
  std::size_t number = 0;
  {
    const std::lock_guard lock(event->mutex);
    number = event->recorded;
  }
  stream_of(stream).push([event, number] {
    std::unique_lock lock(event->mutex);
    event->changed.wait(lock, [&] { return event->done >= number; });
  });
  return kSuccess;
}
EXPORT int cuMemAlloc_v2(unsigned long long* pointer, std::size_t bytes) {
  constexpr std::size_t kMemory = std::size_t{8} << 30;
  if (bytes > kMemory) return kOutOfMemory;
  void* made = allocate(bytes);
  *pointer = reinterpret_cast<unsigned long long>(made);
  return made == nullptr ? kInvalidContext : kSuccess;
}
EXPORT int cuMemFree_v2(unsigned long long pointer) {
  return release(reinterpret_cast<void*>(pointer)) ? kSuccess : kInvalidValue;
}
EXPORT int cuMemHostAlloc(void** memory, std::size_t bytes, unsigned) {
  if (current_device < 0) return kInvalidContext;
  *memory = std::malloc(bytes);
  std::memset(*memory, 0x5a, bytes);
  return kSuccess;
}
EXPORT int cuMemFreeHost(void* memory) {
  std::free(memory);
  return kSuccess;
}
EXPORT int cuMemcpyAsync(unsigned long long to, unsigned long long from, std::size_t bytes, void* stream) {
  stream_of(stream).push([=] { std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes); });
  return kSuccess;
}
EXPORT int cuMemsetD8Async(unsigned long long pointer, unsigned char value, std::size_t bytes, void* stream) {
  stream_of(stream).push([=] { std::memset(reinterpret_cast<void*>(pointer), value, bytes); });
  return kSuccess;
}
EXPORT int cuMemHostRegister_v2(void* block, std::size_t, unsigned) {
  static std::mutex mutex;
  static std::set<void*> registered;
  constexpr int kAlreadyRegistered = 712;
  if (current_device < 0) return kInvalidContext;
  const std::lock_guard lock(mutex);
  return registered.insert(block).second ? kSuccess : kAlreadyRegistered;
}
EXPORT int cuMemHostGetDevicePointer_v2(unsigned long long* pointer, void* block, unsigned) {
  *pointer = reinterpret_cast<unsigned long long>(block);
  return kSuccess;
}
EXPORT int cuStreamWriteValue64_v2(void* stream, unsigned long long place, std::uint64_t value, unsigned) {
  stream_of(stream).push([=] { reinterpret_cast<std::atomic<std::uint64_t>*>(place)->store(value); });
  return kSuccess;
}
EXPORT int cuGetErrorName(int status, const char** name) {
  *name = status == kOutOfMemory    ? "CUDA_ERROR_OUT_OF_MEMORY"
          : status == kNoDevice     ? "CUDA_ERROR_NO_DEVICE"
          : status == kInvalidValue ? "CUDA_ERROR_INVALID_VALUE"
                                    : "CUDA_ERROR_UNKNOWN";
  return kSuccess;
}
