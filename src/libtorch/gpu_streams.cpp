#include "libtorch/gpu_streams.h"

#include <ddp/error.h>

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>
#include <torch/version.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <thread>
#include <utility>

namespace ddp::libtorch {
namespace {

using namespace std::chrono_literals;

// A step that was put on the streams takes less. A collective whose peer is gone never ends.
constexpr std::chrono::seconds kFreeLimit = 10s;
constexpr std::chrono::milliseconds kFreePoll = 1ms;

const c10::impl::DeviceGuardImplInterface& guard_of(c10::Device device) {
  return *c10::impl::getDeviceGuardImpl(device.type());
}

// This is c10::cuda::CUDAStream::stream() of libtorch's CUDA part. A CUDAStream consists of a c10::Stream only.
using HandleOf = void* (*)(const c10::Stream*);

HandleOf find_handle_of() {
  constexpr const char* kName = "_ZNK3c104cuda10CUDAStream6streamEv";
  void* found = ::dlsym(RTLD_DEFAULT, kName);
  if (found == nullptr) {
    void* library = ::dlopen("libc10_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
    if (library != nullptr) found = ::dlsym(library, kName);
  }
  return reinterpret_cast<HandleOf>(found);
}

template <typename TorchStream>
void* handle_of(const TorchStream& stream) {
  if constexpr (requires { stream.native_handle(); }) {
    return stream.native_handle();
  } else {
    // This libtorch has no function of its own that takes any device's stream.
    static const HandleOf handle_of_cuda = find_handle_of();
    if (handle_of_cuda != nullptr) return handle_of_cuda(&stream);
    throw Error(ErrorKind::unavailable, "cannot get CUDA's handle of a stream from libtorch " TORCH_VERSION
                                        ": its library libc10_cuda.so is not loaded. Link the program with the "
                                        "libraries of a libtorch with CUDA (TORCH_LIBRARIES).");
  }
}

// Marks the work that is on a stream now.
class Event {
 public:
  explicit Event(const c10::Stream& stream) : device_(stream.device()) {
    guard_of(device_).record(&event_, stream, device_.index(), c10::EventFlag::PYTORCH_DEFAULT);
  }
  ~Event() { guard_of(device_).destroyEvent(event_, device_.index()); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  bool is_done() const { return guard_of(device_).queryEvent(event_); }

 private:
  const c10::Device device_;
  void* event_ = nullptr;
};

}  // namespace

void require_own_gpu(const ProcessGroup& group, const std::string& what, c10::Device device) {
  const Device own = group.device();
  if (own.type != DeviceType::cuda || own.index == device.index()) return;
  throw Error(ErrorKind::invalid_argument, what + " is on " + device.str() +
                                               ", but this rank uses cuda:" + std::to_string(own.index) +
                                               ". Move it there before: to(torch::Device(torch::kCUDA, "
                                               "group.device().index)), for a module before it is wrapped");
}

c10::Stream current_stream(c10::Device device) {
  return guard_of(device).getStream(device);
}

Stream to_runtime(const c10::Stream& stream) {
  return Stream::from_handle(handle_of(stream));
}

void SharedMemory::used_on(const c10::Stream& stream) {
  const std::lock_guard lock(mutex_);
  if (std::find(streams_.begin(), streams_.end(), stream) == streams_.end()) streams_.push_back(stream);
}

SharedMemory::~SharedMemory() {
  if (!device_.is_cuda()) return;
  try {
    // The last use may have been on the stream of the thread that drops the last gradient.
    used_on(current_stream(device_));
    if (wait_for_streams()) return;
    std::fprintf(stderr, "ddp: warning: GPU memory of gradients is not freed: streams still use it after %lld s\n",
                 static_cast<long long>(kFreeLimit.count()));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ddp: warning: GPU memory of gradients is not freed (%s)\n", error.what());
  }
  (void)std::make_unique<std::shared_ptr<void>>(std::move(memory_)).release();
}

bool SharedMemory::wait_for_streams() const {
  const auto end = std::chrono::steady_clock::now() + kFreeLimit;
  std::vector<std::unique_ptr<Event>> events;
  for (const c10::Stream& stream : streams_) events.push_back(std::make_unique<Event>(stream));
  for (const auto& event : events) {
    while (!event->is_done()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(kFreePoll);
    }
  }
  return true;
}

}  // namespace ddp::libtorch
