#include "runtime/backend/nccl/cuda_side_stream.h"

namespace ddp::internal {

CudaSideStream::CudaSideStream(std::shared_ptr<const CudaApi> cuda, int device)
    : cuda_(std::move(cuda)), device_(device), stream_(*cuda_), events_(*cuda_) {}

void CudaSideStream::order(void* earlier, void* later) {
  use_gpu(*cuda_, device_);
  events_.order(earlier, later);
}

SideStream::Mark CudaSideStream::mark(void* stream) {
  use_gpu(*cuda_, device_);
  CudaEventHandle event = nullptr;
  require_cuda(*cuda_, cuda_->create_timed_event(event), "make an event");
  const Mark result(event, [cuda = cuda_](void* made) { cuda->destroy_event(made); });
  require_cuda(*cuda_, cuda_->record_event(event, stream), "record an event");
  return result;
}

std::optional<double> CudaSideStream::seconds(const Mark& earlier, const Mark& later) {
  use_gpu(*cuda_, device_);
  double result = 0;
  const CudaStatus status = cuda_->seconds_between(earlier.get(), later.get(), result);
  if (status == kCudaNotReady) return std::nullopt;
  require_cuda(*cuda_, status, "tell the time between two events");
  return result;
}

}  // namespace ddp::internal
