// NearMemory: other ranks' memory, read where it lies.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "runtime/group/call.h"
#include "runtime/host/host_group.h"
#include "runtime/reduction/reduction.h"

namespace ddp {

// Of one rank, for one collective at a time; all ranks have shown their call.
class NearMemory {
 public:
  enum class Way {
    none,
    copied,  // the system copies it for us (process_vm_readv)
    direct,  // it is mapped here, too
  };

  // `best`: no better way is taken than this.
  NearMemory(std::shared_ptr<HostGroup> host, Way best);

  // How the inputs of all `givers` can be read by all; the same on every rank.
  Way way(const Call& call, const std::function<bool(std::size_t index)>& givers) const;

  // `bytes` of a rank's input from `offset` on, as this process sees them. Way::direct, or this rank itself.
  std::byte* view(const Call& call, std::size_t index, std::size_t offset, std::size_t bytes) const;

  // Copies them here.
  void copy(const Call& call, std::size_t index, std::size_t offset, void* to, std::size_t bytes, Way way) const;
  void copy_from(std::size_t index, std::uint64_t address, void* to, std::size_t bytes) const;

  // Reduces the same part of all ranks' inputs, which begins at `offset` and is as long as `part`.
  void reduce(const Call& call, const Buffer& part, std::size_t offset, std::span<void* const> destinations, Way way);

 private:
  void reduce_copied(const Call& call, const Buffer& part, std::size_t offset, std::span<void* const> destinations);

  const std::shared_ptr<HostGroup> host_;
  const bool one_process_;
  const Way best_;
  // Kept from call to call.
  std::vector<ReductionSource> sources_;
  std::vector<void*> targets_;
  std::vector<std::byte> fetched_;
};

}  // namespace ddp
