// NearMemory: other ranks' memory, read where it lies.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "runtime/call/call.h"
#include "runtime/peers/node_group.h"
#include "runtime/reduction/reduction.h"

namespace ddp::internal {

// Of one rank, for one collective at a time; all ranks have shown their call.
class NearMemory {
 public:
  // `enabled`: false for tests of what is done without.
  NearMemory(std::shared_ptr<NodeGroup> node, bool enabled);

  // Whether all ranks have the inputs of all `givers` mapped; the same on every rank.
  bool has(const Call& call, const std::function<bool(std::size_t index)>& givers) const;

  // `bytes` of a rank's input from `offset` on, as this process sees them.
  std::byte* view(const Call& call, std::size_t index, std::size_t offset, std::size_t bytes) const;

  // Reduces the same part of all ranks' inputs, which begins at `offset` and is as long as `part`.
  void reduce(const Call& call, const Buffer& part, std::size_t offset, std::span<void* const> destinations);

 private:
  const std::shared_ptr<NodeGroup> node_;
  const bool one_process_;
  const bool enabled_;
  std::vector<ReductionSource> sources_;  // kept from call to call
};

}  // namespace ddp::internal
