#include "runtime/backend/nccl/cuda_resources.h"

#include <ddp/error.h>

#include <algorithm>

#include "base/text.h"
#include "runtime/backend/polling.h"
#include "runtime/limits.h"

namespace ddp::internal {

void require_cuda(const CudaApi& cuda, CudaStatus status, const std::string& action) {
  if (status == kCudaSuccess) return;
  throw Error(ErrorKind::internal, "CUDA cannot " + action + " (" + cuda.error_name(status) + ")");
}

void use_gpu(const CudaApi& cuda, int device) {
  require_cuda(cuda, cuda.set_device(device), "use GPU " + std::to_string(device));
}

CudaStream::CudaStream(const CudaApi& cuda) : cuda_(cuda) {
  require_cuda(cuda_, cuda_.create_stream(handle_), "create a stream");
}

CudaStream::~CudaStream() {
  if (handle_ != nullptr) cuda_.destroy_stream(handle_);
}

CudaEvents::~CudaEvents() {
  for (const CudaEventHandle event : free_) cuda_.destroy_event(event);
}

CudaEventHandle CudaEvents::record(CudaStreamHandle stream) {
  CudaEventHandle event = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      event = free_.back();
      free_.pop_back();
    }
  }
  if (event == nullptr) {
    const bool is_timed = kind_ == Kind::timed;
    require_cuda(cuda_, is_timed ? cuda_.create_timed_event(event) : cuda_.create_event(event), "create an event");
  }
  require_cuda(cuda_, cuda_.record_event(event, stream), "record an event");
  return event;
}

void CudaEvents::put_back(CudaEventHandle event) {
  const std::lock_guard lock(mutex_);
  free_.push_back(event);
}

void CudaEvents::order(CudaStreamHandle earlier, CudaStreamHandle later) {
  const CudaEventHandle done = record(earlier);
  require_cuda(cuda_, cuda_.stream_wait_event(later, done), "order streams");
  put_back(done);  // the wait refers to the work that the event marked when the wait began
}

void CudaEvents::finish(CudaStreamHandle stream, std::chrono::nanoseconds limit) {
  const CudaEventHandle done = record(stream);
  const Polling polling(std::chrono::ceil<std::chrono::milliseconds>(limit), limits::kDeviceCopySpin);
  CudaStatus status = kCudaNotReady;
  while ((status = cuda_.query_event(done)) == kCudaNotReady) {
    if (!polling.pause())
      throw Error(ErrorKind::timeout, "a CUDA stream has not finished after " + base::human_duration(limit));
  }
  require_cuda(cuda_, status, "finish its work");
  put_back(done);
}

DeviceScratch::~DeviceScratch() {
  for (void* piece : pieces_) cuda_.release(piece);
}

std::byte* DeviceScratch::reserve(std::size_t bytes) {
  if (bytes > bytes_) {
    // The new piece is at least twice as large, so that the outgrown pieces together are smaller than the one in use.
    const std::size_t wanted = std::max(bytes, 2 * bytes_);
    void* memory = nullptr;
    require_cuda(cuda_, cuda_.allocate(memory, wanted),
                 "allocate " + std::to_string(wanted) + " bytes of GPU memory to stage a host buffer");
    pieces_.push_back(memory);
    bytes_ = wanted;
  }
  return static_cast<std::byte*>(pieces_.back());
}

CudaSideStream::CudaSideStream(std::shared_ptr<const CudaApi> cuda, int device)
    : cuda_(std::move(cuda)),
      device_(device),
      stream_(*cuda_),
      events_(*cuda_),
      // The table of functions must outlive the marks, too.
      marks_(new CudaEvents(*cuda_, CudaEvents::Kind::timed), [table = cuda_](CudaEvents* events) { delete events; }) {}

void CudaSideStream::order(void* earlier, void* later) {
  use_gpu(*cuda_, device_);
  events_.order(earlier, later);
}

SideStream::Mark CudaSideStream::mark(void* stream) {
  use_gpu(*cuda_, device_);
  return {marks_->record(stream), [marks = marks_](void* event) { marks->put_back(event); }};
}

std::optional<double> CudaSideStream::seconds(const Mark& earlier, const Mark& later) {
  use_gpu(*cuda_, device_);
  double result = 0;
  const CudaStatus status = cuda_->seconds_between(earlier.get(), later.get(), result);
  if (status == kCudaNotReady) return std::nullopt;
  require_cuda(*cuda_, status, "measure the time between two events");
  return result;
}

}  // namespace ddp::internal
