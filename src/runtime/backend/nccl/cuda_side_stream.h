// CudaSideStream: SideStream over CUDA.
#pragma once

#include <memory>
#include <optional>

#include "runtime/backend/backend.h"
#include "runtime/backend/nccl/cuda_resources.h"

namespace ddp::internal {

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
