// Implements the part of libcuda.so.1 that the runtime uses. As with CUDA, every call that needs a context fails
// without one, an error of the device stays, and a call that may block is refused while a stream captures.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "support/fake_gpu/fake_gpu.h"
#include "support/fake_gpu/ptx_module.h"

namespace fake_gpu {
namespace {

// Numbers the records of an event. Records on several streams may be done in another order than they were made.
struct Event {
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t recorded = 0;
  std::set<std::size_t> pending;
  std::chrono::steady_clock::time_point done_at;
  int device = 0;
  std::shared_ptr<Capture> capture;  // set if the last record was captured
};

// All users of an event share it.
using EventPointer = std::shared_ptr<Event>;
EventPointer& event_of(void* handle) {
  return *static_cast<EventPointer*>(handle);
}

// Streams that were destroyed are kept, so that a use of them is noticed.
struct Streams {
  std::mutex mutex;
  std::set<void*> live;
  std::set<void*> destroyed;
  std::vector<std::unique_ptr<Stream>> all;
};
Streams& streams() {
  static auto* all = new Streams;
  return *all;
}

constexpr int kGlobal = 0;
constexpr int kRelaxed = 2;

struct Captures {
  std::mutex mutex;
  std::set<std::shared_ptr<Capture>> all;
};
Captures& captures() {
  static auto* all = new Captures;
  return *all;
}
thread_local int capture_mode = kGlobal;

// Returns whether a stream of the current device captures that waits for the default stream.
bool blocking_stream_captures() {
  const std::lock_guard lock(captures().mutex);
  return std::ranges::any_of(captures().all, [](const auto& capture) {
    return capture->is_on_blocking_stream && capture->device == current_device();
  });
}

}  // namespace

int stream_error(void* handle, const char* function) {
  if (handle == nullptr) return context_error();
  const std::lock_guard lock(streams().mutex);
  if (streams().live.contains(handle)) return context_error();
  if (!streams().destroyed.contains(handle)) return kInvalidHandle;
  std::fprintf(stderr, "fake_gpu: %s was given a stream that was destroyed\n", function);
  std::abort();
}

int capture_error() {
  if (capture_mode == kRelaxed) return kCudaSuccess;
  const std::lock_guard lock(captures().mutex);
  int error = kCudaSuccess;
  for (const auto& capture : captures().all) {
    const bool is_own = capture->thread == std::this_thread::get_id();
    const bool is_global = capture->mode == kGlobal && capture_mode == kGlobal;
    if (!is_global && !(is_own && capture->mode != kRelaxed)) continue;
    capture->is_invalid = true;
    error = kCaptureUnsupported;
  }
  return error;
}

}  // namespace fake_gpu

using namespace fake_gpu;

#define EXPORT extern "C" __attribute__((visibility("default")))
#define RETURN_ERROR_OF(call) \
  if (const int error = (call); error != kCudaSuccess) return error

EXPORT int cuInit(unsigned) {
  return device_count() > 0 ? kCudaSuccess : kNoDevice;
}
EXPORT int cuDriverGetVersion(int* version) {
  *version = 12080;
  return kCudaSuccess;
}
EXPORT int cuDeviceGetCount(int* count) {
  *count = device_count();
  return kCudaSuccess;
}
EXPORT int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return ordinal >= 0 && ordinal < device_count() ? kCudaSuccess : 101;
}
EXPORT int cuDeviceGetPCIBusId(char* text, int bytes, int device) {
  std::snprintf(text, static_cast<std::size_t>(bytes), "0000:%02x:00.0", device);
  return kCudaSuccess;
}
// Derives the UUID from the host's name and the device, as each GPU has another one.
EXPORT int cuDeviceGetUuid_v2(std::array<unsigned char, 16>* uuid, int device) {
  if (const char* list = std::getenv("FAKE_GPU_UUIDS"); list != nullptr) {
    const std::string digits = std::string(list).substr(static_cast<std::size_t>(device) * 33, 32);
    for (std::size_t i = 0; i < uuid->size(); ++i) {
      (*uuid)[i] = static_cast<unsigned char>(std::stoi(digits.substr(2 * i, 2), nullptr, 16));
    }
    return kCudaSuccess;
  }
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const std::size_t hash = std::hash<std::string_view>()(host.data());
  std::memcpy(uuid->data(), &hash, sizeof hash);
  uuid->back() = static_cast<unsigned char>(device);
  return kCudaSuccess;
}
// A context is its device's number plus one.
EXPORT int cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = reinterpret_cast<void*>(static_cast<std::size_t>(device) + 1);
  return kCudaSuccess;
}
EXPORT int cuCtxSetCurrent(void* context) {
  set_current_device(static_cast<int>(reinterpret_cast<std::size_t>(context)) - 1);
  return kCudaSuccess;
}
EXPORT int cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  RETURN_ERROR_OF(context_error());
  *least = 0;
  *greatest = -5;
  return kCudaSuccess;
}
EXPORT int cuPointerGetAttribute(void* value, int, unsigned long long pointer) {
  RETURN_ERROR_OF(context_error());
  const int device = device_of(reinterpret_cast<const void*>(pointer));
  if (device < 0) return kInvalidValue;
  *static_cast<int*>(value) = device;
  return kCudaSuccess;
}
EXPORT int cuStreamCreate(void** stream, unsigned flags) {
  RETURN_ERROR_OF(context_error());
  const std::lock_guard lock(streams().mutex);
  *stream = streams().all.emplace_back(std::make_unique<Stream>(current_device())).get();
  streams().all.back()->is_blocking = flags == 0;
  streams().live.insert(*stream);
  ++counts().streams;
  return kCudaSuccess;
}
EXPORT int cuStreamCreateWithPriority(void** stream, unsigned flags, int priority) {
  const int error = cuStreamCreate(stream, flags);
  if (error == kCudaSuccess) stream_of(*stream).priority = priority;
  return error;
}
EXPORT int cuStreamGetPriority(void* stream, int* priority) {
  RETURN_ERROR_OF(stream_error(stream));
  *priority = stream_of(stream).priority;
  return kCudaSuccess;
}
EXPORT int cuStreamDestroy_v2(void* stream) {
  hang_if_asked("cuStreamDestroy_v2");
  if (stream == nullptr || stream_error(stream) == kInvalidHandle) return kInvalidHandle;
  const std::lock_guard lock(streams().mutex);
  streams().live.erase(stream);
  streams().destroyed.insert(stream);
  --stream_of(stream).queue.streams;
  --counts().streams;
  return kCudaSuccess;
}
EXPORT int cuStreamSynchronize(void* stream) {
  RETURN_ERROR_OF(stream_error(stream));
  RETURN_ERROR_OF(capture_error());
  stream_of(stream).queue.drain();
  return context_error();
}
EXPORT int cuLaunchHostFunc(void* stream, void (*function)(void*), void* data) {
  RETURN_ERROR_OF(stream_error(stream));
  stream_of(stream).push([function, data] { function(data); });
  return kCudaSuccess;
}
EXPORT int cuStreamBeginCapture_v2(void* stream, int mode) {
  RETURN_ERROR_OF(stream_error(stream));
  const auto capture = std::make_shared<Capture>();
  capture->mode = mode;
  capture->device = stream_of(stream).device;
  capture->is_on_blocking_stream = stream_of(stream).is_blocking;
  capture->thread = std::this_thread::get_id();
  stream_of(stream).exchange_capture(capture);
  const std::lock_guard lock(captures().mutex);
  captures().all.insert(capture);
  return kCudaSuccess;
}
EXPORT int cuStreamEndCapture(void* stream, void** graph) {
  RETURN_ERROR_OF(stream_error(stream));
  const auto capture = stream_of(stream).exchange_capture(nullptr);
  *graph = nullptr;
  if (!capture) return kInvalidValue;
  const std::lock_guard lock(captures().mutex);
  captures().all.erase(capture);
  capture->has_ended = true;
  return capture->is_invalid ? kCaptureInvalidated : kCudaSuccess;
}
EXPORT int cuStreamIsCapturing(void* stream, int* status) {
  RETURN_ERROR_OF(stream_error(stream));
  if (stream == nullptr && blocking_stream_captures()) return kCaptureImplicit;
  const auto capture = stream_of(stream).captures();
  *status = !capture ? 0 : capture->is_invalid ? 2 : 1;
  return kCudaSuccess;
}
EXPORT int cuThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(*mode, capture_mode);
  return kCudaSuccess;
}
EXPORT int cuEventCreate(void** event, unsigned) {
  RETURN_ERROR_OF(context_error());
  *event = new EventPointer(std::make_shared<Event>());
  event_of(*event)->device = current_device();
  ++counts().events;
  return kCudaSuccess;
}
EXPORT int cuEventDestroy_v2(void* event) {
  delete static_cast<EventPointer*>(event);
  --counts().events;
  return kCudaSuccess;
}
EXPORT int cuEventRecord(void* handle, void* stream) {
  RETURN_ERROR_OF(stream_error(stream));
  const EventPointer event = event_of(handle);
  Stream& place = stream_of(stream);
  if (place.device != event->device) return kInvalidHandle;
  std::size_t number = 0;
  {
    const std::lock_guard lock(event->mutex);
    event->capture = place.captures();
    if (event->capture) return kCudaSuccess;
    number = ++event->recorded;
    event->pending.insert(number);
  }
  place.push([event, number] {
    const std::lock_guard lock(event->mutex);
    event->pending.erase(number);
    if (number == event->recorded) event->done_at = std::chrono::steady_clock::now();
    event->changed.notify_all();
  });
  return kCudaSuccess;
}
EXPORT int cuEventQuery(void* handle) {
  RETURN_ERROR_OF(context_error());
  const EventPointer event = event_of(handle);
  const std::lock_guard lock(event->mutex);
  if (event->capture) {
    event->capture->is_invalid = true;
    return kCapturedEvent;
  }
  RETURN_ERROR_OF(capture_error());
  return event->pending.contains(event->recorded) ? kNotReady : kCudaSuccess;
}
EXPORT int cuEventElapsedTime(float* milliseconds, void* earlier, void* later) {
  RETURN_ERROR_OF(context_error());
  std::array<std::chrono::steady_clock::time_point, 2> times;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const EventPointer event = event_of(i == 0 ? earlier : later);
    const std::lock_guard lock(event->mutex);
    if (event->recorded == 0 || event->capture) return kInvalidHandle;
    if (event->pending.contains(event->recorded)) return kNotReady;
    times[i] = event->done_at;
  }
  *milliseconds = std::chrono::duration<float, std::milli>(times[1] - times[0]).count();
  return kCudaSuccess;
}
EXPORT int cuStreamWaitEvent(void* stream, void* handle, unsigned) {
  RETURN_ERROR_OF(stream_error(stream));
  const EventPointer event = event_of(handle);
  std::size_t number = 0;
  {
    const std::lock_guard lock(event->mutex);
    // The stream becomes a part of the capture, until that ends.
    if (event->capture) {
      stream_of(stream).exchange_capture(event->capture);
      return kCudaSuccess;
    }
    number = event->recorded;
  }
  stream_of(stream).push([event, number] {
    std::unique_lock lock(event->mutex);
    event->changed.wait(lock, [&] { return !event->pending.contains(number); });
  });
  return kCudaSuccess;
}
EXPORT int cuStreamWriteValue64_v2(void* stream, unsigned long long place, std::uint64_t value, unsigned) {
  RETURN_ERROR_OF(stream_error(stream));
  if (stream_of(stream).captures()) return kCaptureUnsupported;
  stream_of(stream).push([=] { reinterpret_cast<std::atomic<std::uint64_t>*>(place)->store(value); });
  return kCudaSuccess;
}
EXPORT int cuGetErrorName(int status, const char** name) {
  static const std::map<int, const char*> kNames = {
      {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
      {kNoDevice, "CUDA_ERROR_NO_DEVICE"},
      {kInvalidValue, "CUDA_ERROR_INVALID_VALUE"},
      {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT"},
      {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE"},
      {kInvalidPtx, "CUDA_ERROR_INVALID_PTX"},
      {kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS"},
      {kMisalignedAddress, "CUDA_ERROR_MISALIGNED_ADDRESS"},
      {kCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
      {kCapturedEvent, "CUDA_ERROR_CAPTURED_EVENT"},
  };
  const auto found = kNames.find(status);
  *name = found == kNames.end() ? "CUDA_ERROR_UNKNOWN" : found->second;
  return kCudaSuccess;
}
