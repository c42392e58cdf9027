// These pure functions describe the NCCL operations for a call. NcclConnections remembers which of them need no new
// connections between the ranks.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <span>
#include <tuple>
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

// Holds the connections of one communicator.
//
// NCCL connects the ranks at the first operation that needs it, and waits for all of them meanwhile. It does so per
// algorithm. It chooses the algorithm by the function, the type, the reduction and the size, and adds up the sizes of
// equal operations in a group. So collectives that are called together are known only together. Sends and receives use
// one connection per rank and direction.
//
// One thread at a time may use it.
class NcclConnections {
 public:
  // Returns whether operations like these have run before.
  bool suffice_for(std::span<const NcclStep> steps) const;
  // These operations have run.
  void add(std::span<const NcclStep> steps);

 private:
  using Kind =
      std::tuple<NcclFunction, NcclType, NcclOp, std::size_t>;  // the last one is the number of digits of a size
  using Transfer = std::pair<NcclFunction, int>;

  // Returns the kinds of the collectives among the steps, in an order that does not depend on theirs.
  static std::vector<Kind> collectives(std::span<const NcclStep> steps);

  std::set<std::vector<Kind>> groups_;
  std::set<Transfer> transfers_;
};

}  // namespace ddp::internal
