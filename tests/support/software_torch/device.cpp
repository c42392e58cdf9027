#include "support/software_torch/device.h"

#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <cuda_runtime.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

extern "C" {
int cuDeviceGetCount(int* count);
int cuDevicePrimaryCtxRetain(void** context, int device);
int cuCtxSetCurrent(void* context);
int cuEventCreate(void** event, unsigned flags);
int cuEventDestroy_v2(void* event);
int cuEventRecord(void* event, void* stream);
int cuEventQuery(void* event);
int cuStreamWaitEvent(void* stream, void* event, unsigned flags);
}

namespace software_torch {
namespace {

constexpr std::size_t kMaxDevices = 16;

std::atomic<int> synchronizations = 0;
std::atomic<int> event_queries = 0;

// Holds the streams besides the default streams. The number of a stream is its place plus one; 0 is the default stream.
struct Streams {
  std::mutex mutex;
  std::vector<void*> handles;
};
Streams& streams() {
  static auto* all = new Streams;
  return *all;
}

thread_local c10::DeviceIndex current_device = 0;
thread_local std::array<c10::StreamId, kMaxDevices> current_ids = {};

c10::Stream stream_of(c10::DeviceIndex device, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::kCUDA, device), id);
}

void require_success(int status, const char* what) {
  TORCH_CHECK(status == 0, "the GPU in software cannot ", what, " (", status, ")");
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::kCUDA; }
  c10::Device getDevice() const override { return {c10::kCUDA, current_device}; }
  void setDevice(c10::Device device) const override { current_device = device.index(); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { current_device = device.index(); }
  c10::Device exchangeDevice(c10::Device device) const override {
    return {c10::kCUDA, std::exchange(current_device, device.index())};
  }
  c10::Stream getStream(c10::Device device) const noexcept override { return current_stream(device.index()); }
  c10::Stream getDefaultStream(c10::Device device) const override { return stream_of(device.index(), 0); }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override {
    const c10::DeviceIndex device = stream.device_index();
    return stream_of(device, std::exchange(current_ids.at(static_cast<std::size_t>(device)), stream.id()));
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    int count = 0;
    return cuDeviceGetCount(&count) == 0 ? static_cast<c10::DeviceIndex>(count) : c10::DeviceIndex(0);
  }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex, const c10::EventFlag) const override {
    use_context(stream.device_index());
    if (*event == nullptr) require_success(cuEventCreate(event, 0), "create an event");
    require_success(cuEventRecord(*event, handle_of(stream)), "record an event");
  }
  void block(void* event, const c10::Stream& stream) const override {
    use_context(stream.device_index());
    if (event != nullptr) require_success(cuStreamWaitEvent(handle_of(stream), event, 0), "wait for an event");
  }
  bool queryEvent(void* event) const override {
    internal::count_event_query();
    return event == nullptr || cuEventQuery(event) == 0;
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    if (event != nullptr) cuEventDestroy_v2(event);
  }
  void synchronizeStream(const c10::Stream& stream) const override { synchronize(stream); }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    internal::record_stream(data.get(), stream);
  }
  // It overrides a function of the interface in newer versions of libtorch.
  void* getStreamNativeHandle(const c10::Stream stream) const { return handle_of(stream); }
};
C10_REGISTER_GUARD_IMPL(CUDA, Guard);

}  // namespace

void* handle_of(const c10::Stream& stream) {
  if (stream.id() == 0) return nullptr;
  const std::lock_guard lock(streams().mutex);
  return streams().handles.at(static_cast<std::size_t>(stream.id() - 1));
}

c10::Stream make_stream(c10::DeviceIndex device) {
  use_context(device);
  void* handle = nullptr;
  require_success(cuStreamCreate(&handle, 0), "create a stream");
  const std::lock_guard lock(streams().mutex);
  streams().handles.push_back(handle);
  return stream_of(device, static_cast<c10::StreamId>(streams().handles.size()));
}

c10::Stream current_stream(c10::DeviceIndex device) {
  return stream_of(device, current_ids.at(static_cast<std::size_t>(device)));
}

void put(const c10::Stream& stream, std::function<void()> action) {
  use_context(stream.device_index());
  require_success(software_cuda::put(static_cast<cudaStream_t>(handle_of(stream)), std::move(action)),
                  "run a function");
}

void synchronize(const c10::Stream& stream) {
  internal::count_synchronization();
  use_context(stream.device_index());
  require_success(cuStreamSynchronize(handle_of(stream)), "synchronise");
}

void use_context(c10::DeviceIndex device) {
  void* context = nullptr;
  require_success(cuDevicePrimaryCtxRetain(&context, device), "retain a context");
  require_success(cuCtxSetCurrent(context), "use a context");
}

Gate::Gate(const c10::Stream& stream) {
  put(stream, [opened = opened_.get_future().share()] { opened.wait(); });
}

void Gate::open() {
  if (!std::exchange(is_open_, true)) opened_.set_value();
}

HostCalls host_calls() {
  return {synchronizations, event_queries};
}
void internal::count_synchronization() {
  ++synchronizations;
}
void internal::count_event_query() {
  ++event_queries;
}

}  // namespace software_torch

namespace at {

// libtorch asks these hooks whether there is CUDA. Their names differ between its versions, so they override nothing by
// name.
struct CUDAHooks final : CUDAHooksInterface {
  explicit CUDAHooks(CUDAHooksArgs) {}
  void initCUDA() const {}
  void init() const {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const { return true; }
  bool isAvailable() const { return true; }
  bool hasPrimaryContext(std::int64_t) const { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const { return true; }
  std::string showConfig() const override { return ""; }
};
REGISTER_CUDA_HOOKS(CUDAHooks);

}  // namespace at

namespace c10::cuda {

// Older versions of libtorch have this function in their CUDA part only.
class __attribute__((visibility("default"))) CUDAStream {
 public:
  void* stream() const;

 private:
  c10::Stream stream_;
};
void* CUDAStream::stream() const {
  return software_torch::handle_of(stream_);
}

}  // namespace c10::cuda
