// NcclBackend's memory: made, copied, cleared, registered.
#include <ddp/error.h>

#include <algorithm>
#include <cstring>

#include "runtime/backend/nccl/cuda_side_stream.h"
#include "runtime/backend/nccl/nccl_backend.h"
#include "runtime/limits.h"

namespace ddp::internal {

std::shared_ptr<void> NcclBackend::allocate_on_gpu(std::size_t bytes) {
  enter();
  const std::size_t wanted = std::max<std::size_t>(bytes, 1);
  const bool by_nccl = libraries_->nccl.allocate != nullptr;
  void* memory = nullptr;
  if (by_nccl) {
    const NcclResult result = libraries_->nccl.allocate(memory, wanted);
    if (is_failure(result)) {
      throw Error(ErrorKind::internal, "NCCL cannot allocate " + std::to_string(wanted) + " bytes of GPU memory (" +
                                           libraries_->nccl.error_string(result) + ")");
    }
  } else {
    require_cuda(cuda_, cuda_.allocate(memory, wanted), "allocate " + std::to_string(wanted) + " bytes of GPU memory");
  }
  std::shared_ptr<void> owner(
      memory, [libraries = libraries_, device = device_, by_nccl, lane = std::weak_ptr(collectives_)](void* pointer) {
        libraries->cuda.set_device(device);
        // An operation that is being aborted may still use it.
        if (const auto alive = lane.lock()) alive->communicator().has_ended();
        if (by_nccl) {
          libraries->nccl.release(pointer);
        } else {
          libraries->cuda.release(pointer);
        }
      });
  CudaStream stream(cuda_);
  require_cuda(cuda_, cuda_.zero_async(memory, wanted, stream.handle()), "clear memory");
  CudaEvents events(cuda_);
  events.finish(stream.handle(), limits::kDeviceCopy);
  // Both go together, the registration first, as it is the pair's second.
  const auto both = std::make_shared<std::pair<std::shared_ptr<void>, std::shared_ptr<void>>>(
      owner, register_buffer({memory, wanted, DataType::u8, DeviceType::cuda}));
  return {both, memory};
}

std::shared_ptr<void> NcclBackend::allocate_pinned(std::size_t bytes) {
  enter();
  const std::size_t wanted = std::max<std::size_t>(bytes, 1);
  void* memory = nullptr;
  require_cuda(cuda_, cuda_.allocate_pinned(memory, wanted),
               "page-lock " + std::to_string(wanted) + " bytes of host memory (ulimit -l may forbid it)");
  std::memset(memory, 0, wanted);
  return {memory, [libraries = libraries_, device = device_](void* pointer) {
            libraries->cuda.set_device(device);
            libraries->cuda.release_pinned(pointer);
          }};
}

// On a stream of its own, because the lanes' may wait for other ranks.
void NcclBackend::copy(const Buffer& to, const ConstBuffer& from, std::optional<void*> before) {
  Call look;
  look.input = from;
  look.output = to;
  enter();
  require_own_memory(look);
  if (from.count == 0) return;
  CudaEvents events(cuda_);
  if (to.device == DeviceType::cpu && from.device == DeviceType::cpu) {
    if (before) events.finish(*before, limits::kDeviceCopy);
    return Backend::copy(to, from, before);
  }
  CudaStream stream(cuda_);
  if (before) {
    const CudaEventHandle ready = events.record(*before);
    require_cuda(cuda_, cuda_.stream_wait_event(stream.handle(), ready), "order streams");
    events.put_back(ready);
  }
  require_cuda(cuda_, cuda_.copy_async(to.data, from.data, from.bytes(), stream.handle()),
               "copy " + std::to_string(from.bytes()) + " bytes");
  events.finish(stream.handle(), limits::kDeviceCopy);
}

void NcclBackend::zero(const Buffer& buffer, std::optional<void*> stream) {
  if (buffer.device == DeviceType::cpu) return Backend::zero(buffer, stream);
  Call look;
  look.output = buffer;
  enter();
  require_own_memory(look);
  if (buffer.count == 0) return;
  if (stream) return require_cuda(cuda_, cuda_.zero_async(buffer.data, buffer.bytes(), *stream), "clear memory");
  CudaStream own(cuda_);
  CudaEvents events(cuda_);
  require_cuda(cuda_, cuda_.zero_async(buffer.data, buffer.bytes(), own.handle()), "clear memory");
  events.finish(own.handle(), limits::kDeviceCopy);
}

std::unique_ptr<SideStream> NcclBackend::side_stream() {
  enter();
  return std::make_unique<CudaSideStream>(std::shared_ptr<const CudaApi>(libraries_, &libraries_->cuda), device_);
}

std::shared_ptr<void> NcclBackend::register_buffer(const Buffer& buffer) {
  enter();
  Call look;
  look.output = buffer;
  require_own_memory(look);
  if (buffer.device != DeviceType::cuda) return nullptr;
  void* handle = collectives_->communicator().register_buffer(buffer.data, buffer.bytes());
  if (handle == nullptr) return nullptr;
  return {handle, [libraries = libraries_, device = device_, lane = std::weak_ptr(collectives_)](void* registered) {
            libraries->cuda.set_device(device);
            if (const auto alive = lane.lock()) alive->communicator().deregister_buffer(registered);
          }};
}

}  // namespace ddp::internal
