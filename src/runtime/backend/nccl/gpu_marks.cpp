#include "runtime/backend/nccl/gpu_marks.h"

#include "runtime/call/call.h"

namespace ddp::internal {

namespace {

constexpr std::size_t kFewBytes = std::size_t{64} << 10;

}  // namespace

GpuMarks::GpuMarks(const CudaApi& cuda, wire::StatusPageLayout& page, wire::PageGroup& place)
    : cuda_(cuda), place_(place) {
  void* seen_at = nullptr;
  if (!cuda_.write_number || cuda_.map_host(&page, sizeof page, seen_at) != kCudaSuccess) return;
  const auto offset = reinterpret_cast<const std::byte*>(&place) - reinterpret_cast<const std::byte*>(&page);
  seen_at_ = static_cast<std::byte*>(seen_at) + offset;
}

bool GpuMarks::marks(std::uint64_t last) const {
  return seen_at_ != nullptr && last > 0 && last < kOwnCalls;
}

void GpuMarks::before(std::uint64_t last, CudaStreamHandle stream) {
  if (!marks(last)) return;
  place_.gpu_queued.store(last, wire::kRelaxed);
  write(offsetof(wire::PageGroup, gpu_started), last, stream);
}

void GpuMarks::after(std::uint64_t last, std::size_t bytes, CudaStreamHandle stream) {
  if (!marks(last) || bytes < kFewBytes) return;
  write(offsetof(wire::PageGroup, gpu_finished), last, stream);
}

// If the stream does not accept a mark, nothing more is marked, and the collective continues. An error of the stream
// shows in the collective.
void GpuMarks::write(std::size_t offset, std::uint64_t number, CudaStreamHandle stream) {
  if (cuda_.write_number(stream, seen_at_ + offset, number) == kCudaSuccess) return;
  seen_at_ = nullptr;
  place_.gpu_queued.store(0, wire::kRelaxed);
}

}  // namespace ddp::internal
