// NearMemory reads other ranks' memory in place.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/call/call.h"
#include "runtime/peers/mismatch_check.h"
#include "runtime/peers/node_group.h"
#include "runtime/reduction/reduction.h"

namespace ddp::internal {

// Serves one rank, for one collective at a time. All ranks have published their call.
class NearMemory {
 public:
  // Tests set `enabled` to false, so that all data are staged.
  NearMemory(std::shared_ptr<NodeGroup> node, bool enabled)
      : node_(std::move(node)), one_process_(node_->one_process()), enabled_(enabled) {}

  // Returns whether all ranks have mapped the inputs of all `givers`. Every rank gets the same result.
  template <typename Givers>
  bool has(const Call& call, const Givers& givers) const {
    for (std::size_t index = 0; enabled_ && index < node_->size(); ++index) {
      if (!givers(index)) continue;
      const CallRecord& record = shown_call(*node_, index, call);
      if (record.address == 0 || (!one_process_ && record.segment == 0)) return false;
    }
    return enabled_;
  }

  // Returns this process's view of `bytes` of a rank's input, from `offset` on.
  std::byte* view(const Call& call, std::size_t index, std::size_t offset, std::size_t bytes) const {
    const CallRecord& record = shown_call(*node_, index, call);
    if (index == node_->own() || one_process_) {
      return reinterpret_cast<std::byte*>(record.address) + offset;  // NOLINT(performance-no-int-to-ptr)
    }
    return node_->segments().at(index, {record.segment, record.offset + offset}, bytes);
  }

  // Reduces the same part of all ranks' inputs, which begins at `offset` and is as long as `part`.
  void reduce(const Call& call, const Buffer& part, std::size_t offset, std::span<void* const> destinations) {
    if (part.count == 0) return;
    sources_.clear();
    for (std::size_t index = 0; index < node_->size(); ++index) {
      sources_.push_back({view(call, index, offset, part.bytes()), shown_call(*node_, index, call).factor});
    }
    internal::reduce(part.type, call.op, sources_, destinations, part.count);
  }

 private:
  const std::shared_ptr<NodeGroup> node_;
  const bool one_process_;
  const bool enabled_;
  std::vector<ReductionSource> sources_;  // kept between calls, to avoid allocations
};

}  // namespace ddp::internal
