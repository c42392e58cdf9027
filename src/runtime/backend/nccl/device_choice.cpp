#include "runtime/backend/nccl/device_choice.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "runtime/backend/nccl/nccl_errors.h"

namespace ddp::internal {
namespace {

constexpr std::uint32_t kBeingWritten = 2;  // a value of has_gpu_uuid

// Returns a text such as "5f1c0a2b-0123-4567-89ab-cdef01234567", as nvidia-smi shows it.
std::string text_of(const CudaUuid& uuid) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += kDigits[uuid[i] >> 4];
    text += kDigits[uuid[i] & 15];
  }
  return text;
}

}  // namespace

ProbeResult probe_device(int local_rank, const CudaApi& cuda, const std::string& host, bool gpu_may_be_shared) {
  int count = 0;
  if (const CudaStatus status = cuda.device_count(count); status != kCudaSuccess) {
    return {no_gpu_text(cuda.error_name(status)), ""};
  }
  if (count == 0) return {kNoGpuText, ""};
  const int device = device_of(local_rank, count);
  if (device >= count) return {too_few_gpus_text(local_rank, count), ""};
  std::string bus_id;
  if (const CudaStatus status = cuda.bus_id(device, bus_id); status != kCudaSuccess) {
    return {gpu_does_not_respond_text(device, cuda.error_name(status)), ""};
  }
  if (gpu_may_be_shared) return {"", ""};
  // Nodes may share a host name and have their GPUs at the same addresses. Containers of a node have names of their
  // own. MIG slices of a GPU share its address.
  const auto uuid = cuda.uuid(device);
  return {"", uuid ? text_of(*uuid) : host + "/" + bus_id};
}

void show_device(const CudaApi& cuda, int device, wire::StatusPageLayout& page) {
  const auto uuid = cuda.uuid(device);
  if (!uuid) return;
  // Ranks that are threads share the page. The first one is shown.
  std::uint32_t none = 0;
  if (!page.has_gpu_uuid.compare_exchange_strong(none, kBeingWritten)) return;
  page.gpu_uuid = *uuid;
  page.has_gpu_uuid.store(1, std::memory_order_release);
}

}  // namespace ddp::internal
