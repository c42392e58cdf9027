// These classes own the backend's CUDA resources: streams, events, and a piece of device memory.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/backend/backend.h"
#include "runtime/backend/nccl/cuda_api.h"

namespace ddp::internal {

// Throws `internal` with CUDA's name for the error, unless `status` is success. `action` completes the text "CUDA
// cannot
// ...".
void require_cuda(const CudaApi& cuda, CudaStatus status, const std::string& action);

// Makes the GPU current. Every function that calls CUDA needs this, because each thread has its own current context.
void use_gpu(const CudaApi& cuda, int device);

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

 private:
  const CudaApi& cuda_;
  const Kind kind_;
  std::mutex mutex_;
  std::vector<CudaEventHandle> free_;
};

// Holds device memory that grows to the largest requested size and is reused.
class DeviceScratch {
 public:
  explicit DeviceScratch(const CudaApi& cuda) : cuda_(cuda) {}
  ~DeviceScratch();
  DeviceScratch(const DeviceScratch&) = delete;
  DeviceScratch& operator=(const DeviceScratch&) = delete;

  // Returns at least `bytes` of memory; its previous contents are lost. Throws `internal` if the GPU has too little
  // memory. Outgrown pieces stay until the end, because freeing waits for the whole device. A kernel on the device may
  // wait for this rank.
  std::byte* reserve(std::size_t bytes);

  // Leaves the memory to the process, like CudaStream::abandon, because freeing device memory waits for the whole
  // device.
  void abandon() { pieces_.clear(); }

 private:
  const CudaApi& cuda_;
  std::vector<void*> pieces_;  // the last piece is in use
  std::size_t bytes_ = 0;
};

// Implements SideStream with CUDA.
class CudaSideStream : public SideStream {
 public:
  CudaSideStream(std::shared_ptr<const CudaApi> cuda, int device);
  ~CudaSideStream() override { cuda_->set_device(device_); }
  CudaSideStream(const CudaSideStream&) = delete;
  CudaSideStream& operator=(const CudaSideStream&) = delete;

  void* handle() const override { return stream_.handle(); }
  void order(void* earlier, void* later) override;
  Mark mark(void* stream) override;
  std::optional<double> seconds(const Mark& earlier, const Mark& later) override;

 private:
  const std::shared_ptr<const CudaApi> cuda_;
  const int device_;
  CudaStream stream_;
  CudaEvents events_;
  const std::shared_ptr<CudaEvents> marks_;  // a mark may outlive this object
};

}  // namespace ddp::internal
