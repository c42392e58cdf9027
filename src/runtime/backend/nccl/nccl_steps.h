// These pure functions describe the NCCL operations for a call.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "runtime/backend/nccl/nccl_api.h"
#include "runtime/call/call.h"

namespace ddp::internal {

enum class NcclFunction { all_reduce, reduce, broadcast, all_gather, reduce_scatter, send, receive };

struct NcclStep {
  NcclFunction function = NcclFunction::all_reduce;
  const void* send = nullptr;
  void* receive = nullptr;
  std::size_t count = 0;  // elements of `type`
  NcclType type = NcclType::u8;
  NcclOp op = NcclOp::sum;
  int peer = -1;
  std::optional<double> factor;  // factor of a premultiplied sum, which replaces `op`

  friend bool operator==(const NcclStep&, const NcclStep&) = default;
};

// Returns whether NCCL can carry out the call. It can move all data, but it cannot reduce 16-bit integers, and it has
// no bitwise reductions.
bool nccl_can(const Call& call);

// Returns whether the call, which NCCL cannot carry out because its minimum and maximum ignore a NaN, can be carried
// out on integers (runtime/reduction/ordered.h). All ranks do so, wherever their buffers lie.
bool reduces_in_order(const Call& call);
// Returns such a call on these integers.
Call call_on_integers(const Call& call, void* integers);

// Returns the steps of this rank, between group_start and group_end. Every buffer of the call lies in GPU memory. Data
// that are only moved are bytes to NCCL. `token` is one byte of GPU memory for barriers. A send and its recv have their
// own communicator, in which rank 0 sends to rank 1.
std::vector<NcclStep> nccl_steps(const Call& call, int rank, int size, void* token);

// Holds a call whose host buffers have been replaced by GPU memory, and the copies before and after it.
struct StagedCall {
  struct Copy {
    void* to = nullptr;
    const void* from = nullptr;
    std::size_t bytes = 0;
  };

  Call call;
  std::vector<Copy> before;
  std::vector<Copy> after;
};

bool touches_host_memory(const Call& call);
// Returns how many bytes of GPU memory stage() needs from `base` on.
std::size_t staging_bytes(const Call& call);
StagedCall stage(const Call& call, int rank, int size, std::byte* base);

}  // namespace ddp::internal
