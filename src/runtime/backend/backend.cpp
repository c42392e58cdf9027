#include "runtime/backend/backend.h"

#include <ddp/error.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "runtime/backend/backend_errors.h"

namespace ddp::internal {

std::shared_ptr<void> Backend::allocate(std::size_t bytes) {
  constexpr std::align_val_t kAlignment{64};
  void* memory = ::operator new(std::max<std::size_t>(bytes, 1), kAlignment);
  std::memset(memory, 0, bytes);
  return {memory, [](void* pointer) { ::operator delete(pointer, kAlignment); }};
}

std::shared_ptr<void> Backend::allocate_on_gpu(std::size_t /*bytes*/) {
  throw no_gpu_memory_error(std::string(name()));
}

void Backend::copy(const Buffer& to, const ConstBuffer& from, Stream /*stream*/) {
  if (to.device != DeviceType::cpu || from.device != DeviceType::cpu) allocate_on_gpu(0);
  if (from.count > 0) std::memmove(to.data, from.data, from.bytes());
}

void Backend::zero(const Buffer& buffer, Stream /*stream*/) {
  if (buffer.device != DeviceType::cpu) allocate_on_gpu(0);
  if (buffer.count > 0) std::memset(buffer.data, 0, buffer.bytes());
}

std::unique_ptr<SideStream> Backend::side_stream() {
  allocate_on_gpu(0);
  return nullptr;
}

std::unique_ptr<Backend> Backend::split(const BackendOptions& /*options*/, std::shared_ptr<Store> /*store*/,
                                        int /*color*/) {
  return nullptr;
}

}  // namespace ddp::internal
