#include "runtime/backend/nccl/cuda_api.h"

#include <map>
#include <mutex>

#include "runtime/backend/nccl/nccl_errors.h"

namespace ddp::internal {

CudaApi::CudaApi(const char* file) : SharedLibrary(file) {
  if (obstacle_.find("No such file") != std::string::npos) {
    obstacle_ = kNoDriverText;
  } else if (!obstacle_.empty()) {
    obstacle_ = driver_unusable_text(obstacle_);
  } else if (const CudaStatus status = init(0); status != kCudaSuccess) {
    obstacle_ = driver_not_initialized_text(error_name(status));
  } else if (get_driver_version != nullptr) {
    get_driver_version(driver_version);
  }
}

CudaStatus CudaApi::bus_id(int device, std::string& bus_id) const {
  std::array<char, 32> text{};
  int handle = 0;
  if (const CudaStatus status = get_device(handle, device); status != kCudaSuccess) return status;
  const CudaStatus status = get_bus_id(text.data(), static_cast<int>(text.size()), handle);
  bus_id = text.data();
  return status;
}

std::optional<CudaUuid> CudaApi::uuid(int device) const {
  CudaUuid found{};
  int handle = 0;
  const bool is_known =
      get_uuid != nullptr && get_device(handle, device) == kCudaSuccess && get_uuid(found, handle) == kCudaSuccess;
  return is_known ? std::optional(found) : std::nullopt;
}

// The device's primary context is kept until the process ends, because releasing the last reference would destroy the
// program's data on the GPU.
CudaStatus CudaApi::set_device(int device) const {
  // Threads of the backend may still call this while the process ends, so nothing of it is destroyed.
  struct Contexts {
    std::mutex mutex;
    std::map<int, CudaContextHandle> by_gpu;
  };
  static auto* contexts = new Contexts;
  const std::lock_guard lock(contexts->mutex);
  CudaContextHandle& context = contexts->by_gpu[device];
  if (context == nullptr) {
    int handle = 0;
    if (const CudaStatus status = get_device(handle, device); status != kCudaSuccess) return status;
    if (const CudaStatus status = retain_context(context, handle); status != kCudaSuccess) return status;
  }
  return use_context(context);
}

CudaStatus CudaApi::device_of(const void* memory, int& device) const {
  constexpr int kDeviceOfPointer = 9;
  device = kNoCudaDevice;
  const CudaStatus status = get_attribute(&device, kDeviceOfPointer, memory);
  if (device < 0) device = kNoCudaDevice;
  return status == kCudaInvalidValue ? kCudaSuccess : status;
}

CudaStatus CudaApi::create_stream(CudaStreamHandle& stream) const {
  constexpr unsigned kNonBlocking = 1;
  int least = 0;
  int greatest = 0;
  if (const CudaStatus status = get_priorities(least, greatest); status != kCudaSuccess) return status;
  return create_prior_stream(stream, kNonBlocking, greatest);
}

CudaStatus CudaApi::is_capturing(CudaStreamHandle stream, bool& captures) const {
  int capture_status = 0;  // 0 means that the stream does not capture
  const CudaStatus status = get_capture_status(stream, capture_status);
  captures = capture_status != 0;
  return status;
}

CudaStatus CudaApi::seconds_between(CudaEventHandle earlier, CudaEventHandle later, double& seconds) const {
  float milliseconds = 0;
  const CudaStatus status = get_elapsed_time(milliseconds, earlier, later);
  seconds = static_cast<double>(milliseconds) * 1e-3;
  return status;
}

CudaStatus CudaApi::map_host(void* memory, std::size_t bytes, void*& seen_at) const {
  constexpr unsigned kMapped = 2;
  constexpr CudaStatus kAlreadyRegistered = 712;
  const CudaStatus status = register_host(memory, bytes, kCudaHostPortable | kMapped);
  if (status != kCudaSuccess && status != kAlreadyRegistered) return status;
  return get_host_address(seen_at, memory, 0);
}

std::string CudaApi::error_name(CudaStatus status) const {
  const char* name = nullptr;
  get_error_name(status, name);
  return name == nullptr ? "CUDA error " + std::to_string(status) : name;
}

const CudaApi& cuda_library() {
  // It is never destroyed, as the contexts in set_device().
  static const auto* library = new CudaApi("libcuda.so.1");
  return *library;
}

}  // namespace ddp::internal
