#include "runtime/backend/nccl/cuda_resources.h"

#include <ddp/error.h>

#include <cstdint>
#include <memory>

#include "runtime/backend/nccl/nccl_errors.h"
#include "runtime/backend/polling.h"
#include "runtime/limits.h"

namespace ddp::internal {

void require_cuda(const CudaApi& cuda, CudaStatus status, const std::string& action) {
  if (status != kCudaSuccess) throw cuda_error(action, cuda.error_name(status));
}

void require_gpu_memory(const CudaApi& cuda, CudaStatus status, const GpuMemoryRequest& request) {
  if (status != kCudaOutOfMemory) {
    return require_cuda(cuda, status, "allocate " + std::to_string(request.bytes) + " bytes of GPU memory");
  }
  std::pair<std::size_t, std::size_t> memory;
  const bool is_known = cuda.memory_info(memory.first, memory.second) == kCudaSuccess;
  throw out_of_gpu_memory_error(request, is_known ? std::optional(memory) : std::nullopt, cuda.error_name(status));
}

GpuScope::GpuScope(const CudaApi& cuda, int device) : cuda_(cuda) {
  require_cuda(cuda_, cuda_.set_device(device), "use GPU " + std::to_string(device));
  require_cuda(cuda_, cuda_.exchange_capture_mode(mode_), "set the thread's capture mode");
}

GpuScope::~GpuScope() {
  cuda_.exchange_capture_mode(mode_);
}

void refuse_stream_per_thread(CudaStreamHandle stream, const std::string& action) {
  constexpr std::uintptr_t kStreamPerThread = 2;  // CU_STREAM_PER_THREAD
  if (reinterpret_cast<std::uintptr_t>(stream) == kStreamPerThread) throw stream_per_thread_error(action);
}

void require_usable_stream(const CudaApi& cuda, CudaStreamHandle stream, const std::string& action) {
  refuse_stream_per_thread(stream, action);
  bool captures = false;
  // The default stream reports an error while another stream captures. The capture would then fail.
  const CudaStatus status = cuda.is_capturing(stream, captures);
  if (status == kCudaSuccess && !captures) return;
  if (!captures) require_cuda(cuda, status, "use the stream");
  throw captured_call_error(action);
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
    require_cuda(cuda_, cuda_.create_event(event, kind_ == Kind::timed ? kCudaTimedEvent : kCudaUntimedEvent),
                 "create an event");
  }
  const CudaStatus status = cuda_.record_event(event, stream);
  if (status != kCudaSuccess) put_back(event);
  require_cuda(cuda_, status, "record an event");
  return event;
}

void CudaEvents::put_back(CudaEventHandle event) {
  {
    const std::lock_guard lock(mutex_);
    if (free_.size() < kMostFree) return free_.push_back(event);
  }
  cuda_.destroy_event(event);
}

void CudaEvents::order(CudaStreamHandle earlier, CudaStreamHandle later) {
  const CudaEventHandle done = record(earlier);
  const CudaStatus status = cuda_.stream_wait_event(later, done, 0);
  put_back(done);  // the wait refers to the work that the event marked when the wait began
  require_cuda(cuda_, status, "order streams");
}

void CudaEvents::finish(CudaStreamHandle stream, std::chrono::nanoseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  finish(stream, [&] {
    if (std::chrono::steady_clock::now() >= end) throw unfinished_stream_error(limit);
  });
}

void CudaEvents::finish(CudaStreamHandle stream, const std::function<void()>& check) {
  const CudaEventHandle done = record(stream);
  // check() may throw.
  const auto put_event_back = [this](void* event) { put_back(event); };
  const std::unique_ptr<void, decltype(put_event_back)> owner(done, put_event_back);
  Polling polling(limits::kNoTimeout, limits::kDeviceCopySpin);
  CudaStatus status = kCudaNotReady;
  while ((status = cuda_.query_event(done)) == kCudaNotReady) {
    check();
    polling.pause();
  }
  require_cuda(cuda_, status, "finish its work");
}

}  // namespace ddp::internal
