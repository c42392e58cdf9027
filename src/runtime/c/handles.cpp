#include "runtime/c/handles.h"

namespace ddp::internal {

void* AllocatedMemory::add(Memory memory) {
  void* address = memory.buffer().data;
  const std::lock_guard lock(mutex_);
  memories_.insert_or_assign(address, std::move(memory));
  return address;
}

void AllocatedMemory::free(const char* function, void* address) {
  Memory memory;  // freed after the lock is released
  const std::lock_guard lock(mutex_);
  const auto found = memories_.find(address);
  if (found == memories_.end()) {
    std::ostringstream text;
    text << address << " was not allocated by ddp_allocate() or ddp_allocate_pinned(), or it was already freed";
    refuse(function, text.str());
  }
  memory = std::move(found->second);
  memories_.erase(found);
}

Handles& handles() {
  static Handles& all = *std::make_unique<Handles>().release();
  return all;
}

}  // namespace ddp::internal
