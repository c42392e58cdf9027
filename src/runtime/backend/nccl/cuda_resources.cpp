#include "runtime/backend/nccl/cuda_resources.h"

#include <ddp/error.h>

namespace ddp {

void require_cuda(const CudaApi& cuda, CudaStatus status, const std::string& deed) {
  if (status == kCudaSuccess) return;
  throw Error(ErrorKind::internal, "CUDA cannot " + deed + " (" + cuda.error_name(status) + ")");
}

CudaStream::CudaStream(const CudaApi& cuda) : cuda_(cuda) {
  require_cuda(cuda_, cuda_.create_stream(handle_), "make a stream");
}

CudaStream::~CudaStream() {
  if (handle_ != nullptr) cuda_.destroy_stream(handle_);
}

DeviceScratch::~DeviceScratch() {
  if (memory_ != nullptr) cuda_.release(memory_);
}

void* DeviceScratch::reserve(std::size_t bytes) {
  if (bytes <= bytes_) return memory_;
  // The old one first, so that both never count at the same time.
  if (memory_ != nullptr) cuda_.release(memory_);
  memory_ = nullptr;
  bytes_ = 0;
  require_cuda(cuda_, cuda_.allocate(memory_, bytes),
               "allocate " + std::to_string(bytes) + " bytes of GPU memory to stage a host buffer in");
  bytes_ = bytes;
  return memory_;
}

}  // namespace ddp
