// CudaSideStream implements SideStream with CUDA.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "runtime/backend/backend.h"
#include "runtime/backend/nccl/cuda_resources.h"
#include "runtime/backend/nccl/gpu_heap.h"

namespace ddp::internal {

class CudaSideStream : public SideStream {
 public:
  // Every stream that the functions are given is followed by the heap.
  CudaSideStream(std::shared_ptr<const CudaApi> cuda, int device, std::shared_ptr<GpuHeap> heap);
  ~CudaSideStream() override;
  CudaSideStream(const CudaSideStream&) = delete;
  CudaSideStream& operator=(const CudaSideStream&) = delete;

  void* handle() const override { return stream_->handle(); }
  void order(void* earlier, void* later) override;
  Mark mark(void* stream) override;
  bool is_reached(const Mark& mark) override;
  std::optional<double> seconds(const Mark& earlier, const Mark& later) override;
  void finish(void* stream, std::chrono::nanoseconds limit) override;
  void copy_to_pinned(void* to, const void* from, std::size_t bytes) override;

 private:
  const std::shared_ptr<const CudaApi> cuda_;
  const int device_;
  const std::shared_ptr<GpuHeap> heap_;
  std::unique_ptr<CudaStream> stream_;
  CudaEvents events_;
  const std::shared_ptr<CudaEvents> marks_;  // a mark may outlive this object
};

}  // namespace ddp::internal
