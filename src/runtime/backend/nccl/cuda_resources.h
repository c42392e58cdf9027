// What the backend owns of CUDA: streams, events, and a piece of device memory.
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

// Throws `internal` with CUDA's name for the error, unless `status` is success. `deed` ends "CUDA cannot ...".
void require_cuda(const CudaApi& cuda, CudaStatus status, const std::string& deed);

// Of every function that calls CUDA: its context is a thread's own.
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

// Events that are used again and again. Any thread.
class CudaEvents {
 public:
  explicit CudaEvents(const CudaApi& cuda) : cuda_(cuda) {}
  ~CudaEvents();
  CudaEvents(const CudaEvents&) = delete;
  CudaEvents& operator=(const CudaEvents&) = delete;

  // An event that stands for what is on the stream now; to be put back when nobody looks at it any more.
  CudaEventHandle record(CudaStreamHandle stream);
  void put_back(CudaEventHandle event);
  // What is put on `later` from now on waits for what is on `earlier` now.
  void order(CudaStreamHandle earlier, CudaStreamHandle later);
  // Blocks until what is on the stream is done; throws `timeout`.
  void finish(CudaStreamHandle stream, std::chrono::nanoseconds limit);

 private:
  const CudaApi& cuda_;
  std::mutex mutex_;
  std::vector<CudaEventHandle> free_;
};

// Device memory that grows to the largest size asked for and is used again and again.
class DeviceScratch {
 public:
  explicit DeviceScratch(const CudaApi& cuda) : cuda_(cuda) {}
  ~DeviceScratch();
  DeviceScratch(const DeviceScratch&) = delete;
  DeviceScratch& operator=(const DeviceScratch&) = delete;

  // At least `bytes`; what it held before is lost. Throws `internal` if the GPU has no room. Outgrown pieces stay until
  // the end: freeing waits for the whole device, on which a kernel may wait for this rank.
  std::byte* reserve(std::size_t bytes);

  // As CudaStream::abandon: freeing device memory waits for the whole device.
  void abandon() { pieces_.clear(); }

 private:
  const CudaApi& cuda_;
  std::vector<void*> pieces_;  // the last one is used
  std::size_t bytes_ = 0;
};

// SideStream over CUDA.
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
};

}  // namespace ddp::internal
