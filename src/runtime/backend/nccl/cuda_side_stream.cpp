#include "runtime/backend/nccl/cuda_side_stream.h"

#include <string>
#include <utility>

namespace ddp::internal {

CudaSideStream::CudaSideStream(std::shared_ptr<const CudaApi> cuda, int device, std::shared_ptr<GpuHeap> heap)
    : cuda_(std::move(cuda)),
      device_(device),
      heap_(std::move(heap)),
      stream_(std::make_unique<CudaStream>(*cuda_)),
      events_(*cuda_),
      // The table of functions must outlive the marks, too.
      marks_(new CudaEvents(*cuda_, CudaEvents::Kind::timed), [table = cuda_](CudaEvents* events) { delete events; }) {
  heap_->follow(handle());
}

// While an exception unwinds the stack, the stream may still hold kernels that use the heap's memory.
CudaSideStream::~CudaSideStream() {
  cuda_->set_device(device_);
  heap_->retire(std::move(stream_));
}

void CudaSideStream::order(void* earlier, void* later) {
  const GpuScope scope(*cuda_, device_);
  for (void* stream : {earlier, later}) require_usable_stream(*cuda_, stream, "data-parallel training");
  events_.order(earlier, later);
}

SideStream::Mark CudaSideStream::mark(void* stream) {
  const GpuScope scope(*cuda_, device_);
  if (stream != handle()) {
    require_usable_stream(*cuda_, stream, "data-parallel training");
    heap_->follow(stream);
  }
  return {marks_->record(stream), [marks = marks_](void* event) { marks->put_back(event); }};
}

bool CudaSideStream::is_reached(const Mark& mark) {
  const GpuScope scope(*cuda_, device_);
  const CudaStatus status = cuda_->query_event(mark.get());
  if (status != kCudaNotReady) require_cuda(*cuda_, status, "look at an event");
  return status == kCudaSuccess;
}

std::optional<double> CudaSideStream::seconds(const Mark& earlier, const Mark& later) {
  const GpuScope scope(*cuda_, device_);
  double result = 0;
  const CudaStatus status = cuda_->seconds_between(earlier.get(), later.get(), result);
  if (status == kCudaNotReady) return std::nullopt;
  require_cuda(*cuda_, status, "measure the time between two events");
  return result;
}

void CudaSideStream::finish(void* stream, std::chrono::nanoseconds limit) {
  const GpuScope scope(*cuda_, device_);
  events_.finish(stream, limit);
}

void CudaSideStream::copy_to_pinned(void* to, const void* from, std::size_t bytes) {
  const GpuScope scope(*cuda_, device_);
  require_cuda(*cuda_, cuda_->copy_async(to, from, bytes, handle()), "copy " + std::to_string(bytes) + " bytes");
}

}  // namespace ddp::internal
