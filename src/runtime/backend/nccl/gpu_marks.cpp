#include "runtime/backend/nccl/gpu_marks.h"

#include <algorithm>

#include "runtime/call/call.h"

namespace ddp::internal {

GpuMarks::GpuMarks(const CudaApi& cuda, wire::StatusPageLayout& page, wire::PageGroup& place)
    : cuda_(cuda), place_(place), stream_(cuda) {
  void* seen_at = nullptr;
  if (cuda_.write_number == nullptr || cuda_.map_host(&page, sizeof page, seen_at) != kCudaSuccess) return;
  const auto offset = reinterpret_cast<const std::byte*>(&place) - reinterpret_cast<const std::byte*>(&page);
  seen_at_ = static_cast<std::byte*>(seen_at) + offset;
}

bool GpuMarks::marks(std::uint64_t last) const {
  return seen_at_ != nullptr && last > 0 && last < kOwnCalls;
}

void GpuMarks::queue(std::uint64_t last) {
  if (marks(last)) place_.gpu_queued.store(last, wire::kRelaxed);
}

void GpuMarks::mark(std::uint64_t last, std::span<const CudaEventHandle> ready, CudaEventHandle done) {
  if (!marks(last)) return;
  const auto wait = [&](CudaEventHandle event) {
    return cuda_.stream_wait_event(stream_.handle(), event, 0) == kCudaSuccess;
  };
  const auto write = [&](std::size_t offset) {
    return cuda_.write_number(stream_.handle(), seen_at_ + offset, last, 0) == kCudaSuccess;
  };
  const bool is_marked = std::ranges::all_of(ready, wait) && write(offsetof(wire::PageGroup, gpu_started)) &&
                         wait(done) && write(offsetof(wire::PageGroup, gpu_finished));
  if (!is_marked) give_up();
}

// The collectives continue without marks. An error of the stream shows in them.
void GpuMarks::give_up() {
  seen_at_ = nullptr;
  place_.gpu_queued.store(0, wire::kRelaxed);
}

}  // namespace ddp::internal
