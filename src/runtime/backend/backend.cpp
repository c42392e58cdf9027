#include "runtime/backend/backend.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace ddp {

std::shared_ptr<void> Backend::allocate(std::size_t bytes) {
  constexpr std::align_val_t kAlignment{64};
  void* memory = ::operator new(std::max<std::size_t>(bytes, 1), kAlignment);
  std::memset(memory, 0, bytes);
  return {memory, [](void* pointer) { ::operator delete(pointer, kAlignment); }};
}

}  // namespace ddp
