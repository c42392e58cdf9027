// Implements the memory functions of <ddp/c.h>.
#include <ddp/memory.h>

#include <sstream>
#include <string>
#include <utility>

#include "runtime/c/boundary.h"
#include "runtime/c/c_call.h"
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

}  // namespace ddp::internal

using namespace ddp::internal;

namespace {

// 0 bytes need no memory: the address is null, and ddp_free() accepts it.
template <typename Allocate>
int allocate_for(const char* function, const ddp_group* group, int64_t bytes, void** data, Allocate allocate) {
  return at_boundary([&] {
    require_output(function, "data", data);
    const auto members = handles().groups.find(function, group);
    if (bytes < 0) refuse(function, "bytes is " + std::to_string(bytes) + ", which is negative");
    if (bytes > 0) *data = handles().memory.add(allocate(*members, static_cast<std::size_t>(bytes)));
  });
}

}  // namespace

int ddp_allocate(ddp_group* group, int64_t bytes, int32_t device, void** data) {
  return allocate_for("ddp_allocate", group, bytes, data, [&](ddp::ProcessGroup& members, std::size_t count) {
    return members.allocate(count, ddp::DataType::u8, device_of("ddp_allocate", device));
  });
}

int ddp_allocate_pinned(ddp_group* group, int64_t bytes, void** data) {
  return allocate_for("ddp_allocate_pinned", group, bytes, data, [](ddp::ProcessGroup& members, std::size_t count) {
    return members.allocate_pinned(count, ddp::DataType::u8);
  });
}

int ddp_forget_stream(ddp_group* group, void* stream) {
  return at_boundary(
      [&] { handles().groups.find("ddp_forget_stream", group)->forget(ddp::Stream::from_handle(stream)); });
}

int ddp_free(void* data) {
  return at_boundary([&] {
    if (data != nullptr) handles().memory.free("ddp_free", data);
  });
}
