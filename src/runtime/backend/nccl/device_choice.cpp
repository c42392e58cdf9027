#include "runtime/backend/nccl/device_choice.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "runtime/backend/nccl/nccl_errors.h"

namespace ddp::internal {
namespace {

constexpr std::uint32_t kBeingWritten = 2;  // a value of has_gpu_uuid

// Reads a text such as "5f1c0a2b-0123-4567-89ab-cdef01234567".
std::optional<std::array<std::uint8_t, 16>> uuid_bytes(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::array<std::uint8_t, 16> bytes{};
  std::size_t digits = 0;
  for (const char c : text) {
    if (c == '-') continue;
    const std::size_t value = kDigits.find(c);
    if (value == std::string_view::npos || digits == 2 * bytes.size()) return std::nullopt;
    bytes[digits / 2] = static_cast<std::uint8_t>(bytes[digits / 2] << 4 | value);
    ++digits;
  }
  return digits == 2 * bytes.size() ? std::optional(bytes) : std::nullopt;
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
  std::string uuid;
  const bool has_uuid = cuda.uuid && cuda.uuid(device, uuid) == kCudaSuccess;
  return {"", has_uuid ? uuid : host + "/" + bus_id};
}

void show_device(const CudaApi& cuda, int device, wire::StatusPageLayout& page) {
  std::string text;
  if (!cuda.uuid || cuda.uuid(device, text) != kCudaSuccess) return;
  const auto uuid = uuid_bytes(text);
  if (!uuid) return;
  // Ranks that are threads share the page. The first one is shown.
  std::uint32_t none = 0;
  if (!page.has_gpu_uuid.compare_exchange_strong(none, kBeingWritten)) return;
  page.gpu_uuid = *uuid;
  page.has_gpu_uuid.store(1, std::memory_order_release);
}

}  // namespace ddp::internal
