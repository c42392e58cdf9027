#include "runtime/backend/cpu/near_memory.h"

#include "runtime/peers/mismatch_check.h"

namespace ddp::internal {

NearMemory::NearMemory(std::shared_ptr<NodeGroup> node, bool enabled)
    : node_(std::move(node)), one_process_(node_->one_process()), enabled_(enabled) {}

bool NearMemory::has(const Call& call, const std::function<bool(std::size_t index)>& givers) const {
  for (std::size_t index = 0; enabled_ && index < node_->size(); ++index) {
    if (!givers(index)) continue;
    const CallRecord& record = shown_call(*node_, index, call);
    if (record.address == 0 || (!one_process_ && record.segment == 0)) return false;
  }
  return enabled_;
}

std::byte* NearMemory::view(const Call& call, std::size_t index, std::size_t offset, std::size_t bytes) const {
  const CallRecord& record = shown_call(*node_, index, call);
  if (index == node_->own() || one_process_) {
    return reinterpret_cast<std::byte*>(record.address) + offset;  // NOLINT(performance-no-int-to-ptr)
  }
  return node_->segments().at(index, {record.segment, record.offset + offset}, bytes);
}

void NearMemory::reduce(const Call& call, const Buffer& part, std::size_t offset, std::span<void* const> destinations) {
  if (part.count == 0) return;
  sources_.clear();
  for (std::size_t index = 0; index < node_->size(); ++index) {
    sources_.push_back({view(call, index, offset, part.bytes()), shown_call(*node_, index, call).factor});
  }
  internal::reduce(part.type, call.op, sources_, destinations, part.count);
}

}  // namespace ddp::internal
