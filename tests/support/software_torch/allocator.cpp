#include <c10/core/Allocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "support/software_torch/device.h"

extern "C" {
int cuMemAlloc_v2(unsigned long long* pointer, std::size_t bytes);
int cuEventCreate(void** event, unsigned flags);
int cuEventDestroy_v2(void* event);
int cuEventRecord(void* event, void* stream);
int cuEventQuery(void* event);
}

namespace software_torch {
namespace {

struct Block {
  std::size_t bytes = 0;
  c10::Stream owner;  // the stream on which it was allocated
  bool is_allocated = true;
  std::vector<c10::Stream> others;  // recorded for it since it was allocated
  std::vector<void*> pending;       // events of the other streams, after it was freed
};

struct Cache {
  std::mutex mutex;
  std::map<const void*, Block> blocks;
  std::size_t reused = 0;
};
Cache& cache() {
  static auto* all = new Cache;
  return *all;
}

bool is_reusable(Block& block) {
  std::erase_if(block.pending, [](void* event) {
    if (cuEventQuery(event) != 0) return false;
    cuEventDestroy_v2(event);
    return true;
  });
  return !block.is_allocated && block.pending.empty();
}

void release(void* data) {
  const std::lock_guard lock(cache().mutex);
  Block& block = cache().blocks.at(data);
  use_context(block.owner.device_index());
  for (const c10::Stream& stream : block.others) {
    void*& event = block.pending.emplace_back();
    TORCH_CHECK(cuEventCreate(&event, 0) == 0 && cuEventRecord(event, handle_of(stream)) == 0, "no event");
  }
  block.others.clear();
  block.is_allocated = false;
}

void* reuse_or_allocate(std::size_t bytes, c10::DeviceIndex device) {
  const c10::Stream owner = current_stream(device);
  const std::lock_guard lock(cache().mutex);
  for (auto& [data, block] : cache().blocks) {
    if (block.bytes != bytes || block.owner != owner || !is_reusable(block)) continue;
    block.is_allocated = true;
    ++cache().reused;
    return const_cast<void*>(data);
  }
  use_context(device);
  unsigned long long pointer = 0;
  TORCH_CHECK(cuMemAlloc_v2(&pointer, std::max<std::size_t>(bytes, 1)) == 0, "the GPU in software has no memory");
  void* data = reinterpret_cast<void*>(pointer);
  cache().blocks.emplace(data, Block{bytes, owner});
  return data;
}

}  // namespace

c10::DataPtr internal::allocate(std::size_t bytes) {
  const c10::Device device = c10::impl::getDeviceGuardImpl(c10::kCUDA)->getDevice();
  void* data = reuse_or_allocate(bytes, device.index());
  return {data, data, &release, device};
}

void internal::record_stream(const void* data, const c10::Stream& stream) {
  const std::lock_guard lock(cache().mutex);
  const auto found = cache().blocks.find(data);
  if (found == cache().blocks.end() || found->second.owner == stream) return;
  found->second.others.push_back(stream);
}

bool is_allocated(const void* data) {
  const std::lock_guard lock(cache().mutex);
  const auto found = cache().blocks.find(data);
  return found != cache().blocks.end() && found->second.is_allocated;
}

std::size_t reused_blocks() {
  const std::lock_guard lock(cache().mutex);
  return cache().reused;
}

}  // namespace software_torch
