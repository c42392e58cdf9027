// These classes own the backend's CUDA resources: streams and events.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/backend/nccl/cuda_api.h"

namespace ddp::internal {

// Throws `internal` with CUDA's name for the error, unless `status` is success. `action` completes the text "CUDA
// cannot
// ...".
void require_cuda(const CudaApi& cuda, CudaStatus status, const std::string& action);

// Describes a request for GPU memory, for its error.
struct GpuMemoryRequest {
  std::size_t bytes = 0;
  std::string_view purpose = {};   // such as "to stage a host buffer"; may be empty
  std::optional<int> device = {};  // the GPU's number in this process
  std::optional<int> rank = {};
};

// Throws `unavailable` if the status says that the GPU has too little memory. The error says how much was requested and
// how much is free, and what to try. ddplaunch reads the numbers and adds the processes that hold memory on the GPU.
// Throws `internal` for any other failure.
void require_gpu_memory(const CudaApi& cuda, CudaStatus status, const GpuMemoryRequest& request);

// Makes the GPU current for the calling thread; every function that calls CUDA needs this. While the object exists, the
// thread's calls do not disturb a program that captures a CUDA graph: an event that a thread queries would otherwise
// make every capture of the process invalid.
class GpuScope {
 public:
  GpuScope(const CudaApi& cuda, int device);
  ~GpuScope();
  GpuScope(const GpuScope&) = delete;
  GpuScope& operator=(const GpuScope&) = delete;

 private:
  const CudaApi& cuda_;
  int mode_ = kCudaCaptureRelaxed;
};

// Throws invalid_argument for cudaStreamPerThread, which other threads of the runtime would take for a stream of their
// own. `action` is a text such as "all_reduce".
void refuse_stream_per_thread(CudaStreamHandle stream, const std::string& action);

// Throws invalid_argument in the same case, and if the stream's work goes into a CUDA graph.
void require_usable_stream(const CudaApi& cuda, CudaStreamHandle stream, const std::string& action);

class CudaStream {
 public:
  explicit CudaStream(const CudaApi& cuda);
  ~CudaStream();
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  CudaStreamHandle handle() const { return handle_; }

  // Leaves the stream to the process: destroying it could wait for a kernel that never ends.
  void abandon() { handle_ = nullptr; }

 private:
  const CudaApi& cuda_;
  CudaStreamHandle handle_ = nullptr;
};

// Keeps events for reuse. Any thread may call it.
class CudaEvents {
 public:
  enum class Kind { untimed, timed };  // only the time between timed events can be measured

  explicit CudaEvents(const CudaApi& cuda, Kind kind = Kind::untimed) : cuda_(cuda), kind_(kind) {}
  ~CudaEvents();
  CudaEvents(const CudaEvents&) = delete;
  CudaEvents& operator=(const CudaEvents&) = delete;

  // Records an event that marks the work that is on the stream now. The caller puts the event back when it is no longer
  // used.
  CudaEventHandle record(CudaStreamHandle stream);
  void put_back(CudaEventHandle event);
  // Makes work that is put on `later` from now on wait for the work that is on `earlier` now.
  void order(CudaStreamHandle earlier, CudaStreamHandle later);
  // Blocks until the work on the stream is done. Throws `timeout`.
  void finish(CudaStreamHandle stream, std::chrono::nanoseconds limit);
  // Blocks until the work on the stream is done, however long that takes. It calls `look` again and again, which may
  // throw.
  void finish(CudaStreamHandle stream, const std::function<void()>& check);

 private:
  // More are destroyed: a program that was far ahead of its GPU has used thousands.
  static constexpr std::size_t kMostFree = 256;

  const CudaApi& cuda_;
  const Kind kind_;
  std::mutex mutex_;
  std::vector<CudaEventHandle> free_;
};

// Holds events that were recorded, and puts them back at its end.
struct RecordedEvents {
  CudaEvents& events;
  std::vector<CudaEventHandle> all = {};

  explicit RecordedEvents(CudaEvents& events_) : events(events_) {}
  ~RecordedEvents() {
    for (const CudaEventHandle event : all) events.put_back(event);
  }
  RecordedEvents(const RecordedEvents&) = delete;
  RecordedEvents& operator=(const RecordedEvents&) = delete;
};

}  // namespace ddp::internal
