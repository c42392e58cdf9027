// NearMemory reads other ranks' memory in place. If that is not worthwhile, data are copied.
//
// A rank whose operation fails may lose its memory as soon as the operation has returned. So a rank that fails and a
// rank that accesses memory in place take turns:
//
//   - The rank that fails first says that it has failed, then waits until no other rank accesses memory in place.
//   - The other rank first says that it accesses memory in place, then checks whether any rank has failed.
//
// All four steps are sequentially consistent. So at least one of the two ranks sees the other one. A rank that accesses
// memory in place waits for no other rank, so it is soon done.
#pragma once

#include <chrono>
#include <cstddef>
#include <limits>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "runtime/backend/backend_errors.h"
#include "runtime/call/call.h"
#include "runtime/limits.h"
#include "runtime/peers/mismatch_check.h"
#include "runtime/peers/node_group.h"
#include "runtime/reduction/reduction.h"

namespace ddp::internal {

// The following functions decide how a small collective of one node moves its data. They are pure, and every rank gets
// the same result. A size is the number of bytes that a rank stages: its input, or the largest part of an all_gather.

// Up to this size, one copy into the staging buffer and one out of it are cheaper than two more rounds. Returns 0 for
// operations that are never eager.
constexpr std::size_t eager_up_to(Operation operation, std::size_t ranks) {
  switch (operation) {
    case Operation::all_reduce:
    case Operation::reduce:
      // Every rank reads all staged bytes. If there are more of them, it is cheaper if the ranks divide the reduction.
      return (std::size_t{64} << 10) / ranks;
    case Operation::broadcast:
    case Operation::all_gather:
    case Operation::reduce_scatter:
      return std::size_t{32} << 10;
    default:
      return 0;
  }
}

// Up to this size, a copy into the staging buffer is cheaper than one more round. Each copied cache line moves twice
// between the processors. Above it, a rank leaves its data in place if all ranks have mapped them. If ranks share
// processors, a round takes a change of processes, so all sizes are copied. The sizes are those of two ranks.
constexpr std::size_t copied_up_to(Operation operation, bool has_processor_each) {
  if (!has_processor_each) return std::numeric_limits<std::size_t>::max();
  switch (operation) {
    case Operation::all_reduce:
      return 512;
    case Operation::all_gather:
      return 1024;
    case Operation::reduce_scatter:
      return 4096;
    default:
      return 2048;
  }
}

enum class SmallPath {
  copied,      // the data are in the staging buffers after the first round
  near,        // all ranks read the data in place
  copied_late  // some ranks can show their data and have not copied them; a second round copies all data
};

// If the size is above copied_up_to(): `givers` ranks give data, and all ranks have mapped the data of `near` of them.
constexpr SmallPath small_path(std::size_t givers, std::size_t near) {
  if (near == 0) return SmallPath::copied;
  return near == givers ? SmallPath::near : SmallPath::copied_late;
}

// While it lives, this rank accesses other ranks' memory in place.
class InPlace {
 public:
  // Throws peer_lost if another rank has failed.
  explicit InPlace(const NodeGroup& node) : uses_others_(node.own_area().uses_others) {
    uses_others_ = true;
    for (std::size_t index = 0; index < node.size(); ++index) {
      if (index == node.own() || node.area(index).state != RankState::failed) continue;
      uses_others_ = false;
      throw gone_error(node.rank_of(index), true);
    }
  }
  ~InPlace() { uses_others_.store(false, std::memory_order_release); }
  InPlace(const InPlace&) = delete;
  InPlace& operator=(const InPlace&) = delete;

 private:
  std::atomic<bool>& uses_others_;
};

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

  // Returns when no other rank accesses this rank's memory any more. This rank has said that it has failed. Another
  // process may be stopped meanwhile, so it is waited for only up to a limit. What it then does to memory that this
  // process has freed disturbs neither.
  void await_others() const {
    const auto deadline = std::chrono::steady_clock::now() + limits::kInPlaceWait;
    for (std::size_t index = 0; index < node_->size(); ++index) {
      if (index == node_->own()) continue;
      while (node_->area(index).uses_others &&
             (one_process_ || (!node_->ended(index) && std::chrono::steady_clock::now() < deadline))) {
        std::this_thread::sleep_for(kPoll);
      }
    }
  }

 private:
  static constexpr auto kPoll = std::chrono::microseconds(50);

  const std::shared_ptr<NodeGroup> node_;
  const bool one_process_;
  const bool enabled_;
  std::vector<ReductionSource> sources_;  // kept between calls, to avoid allocations
};

}  // namespace ddp::internal
