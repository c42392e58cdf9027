// Call: one operation of a process group, as a value. What is checked, compared between ranks, queued, carried out and
// told in messages is this.
#pragma once

#include <ddp/buffer.h>
#include <ddp/call_site.h>
#include <ddp/reduce_op.h>
#include <ddp/stream.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::internal {

enum class Operation : std::uint8_t {
  all_reduce,
  reduce,
  broadcast,
  all_gather,
  gather,
  scatter,
  reduce_scatter,
  all_to_all,
  barrier,
  send,
  recv,
};

std::string_view to_string(Operation operation);

// Between two ranks; all others are collectives.
constexpr bool is_transfer(Operation operation) {
  return operation == Operation::send || operation == Operation::recv;
}

constexpr bool has_reduction(Operation operation) {
  return operation == Operation::all_reduce || operation == Operation::reduce || operation == Operation::reduce_scatter;
}

// Numbers from here on are of calls that the library adds to the program's.
inline constexpr std::uint64_t kOwnCalls = std::uint64_t{1} << 61;

struct Call {
  Operation operation = Operation::barrier;
  // all_reduce, reduce and broadcast work in place: both are the same memory.
  ConstBuffer input;
  Buffer output;
  // One for each rank, where input or output consist of such parts. Empty: parts of equal size that follow each other.
  std::vector<ConstBuffer> input_parts;
  std::vector<Buffer> output_parts;
  ReduceOp op;
  int peer = -1;  // the root; of send and recv the other side

  Stream stream;  // the caller's CUDA stream: what is on it is complete before the operation begins
  std::chrono::milliseconds timeout{0};  // 0: the backend's own
  bool is_programs_timeout = false;      // the program has set it
  std::string name;
  CallSite site;
  std::uint64_t sequence = 0;                       // from 1; given by the group
  std::chrono::steady_clock::time_point called_at;  // given by the group
  std::uint64_t fingerprint = 0;                    // see fingerprint_of; given by the group
};

// The element count that stands in messages, and the type.
ConstBuffer subject_of(const Call& call);

// What this rank gives to `rank`, or gets from it, in operations that consist of parts.
ConstBuffer input_part(const Call& call, int rank, int size);
Buffer output_part(const Call& call, int rank, int size);

// Of what is divided into `shares`: the one of this index. Shares are equal and begin at multiples of 64 bytes; the
// last ones may be shorter, or empty.
struct Share {
  std::size_t first = 0;
  std::size_t count = 0;
};
Share share_of(std::size_t count, DataType type, std::size_t index, std::size_t shares);
Buffer share_of(const Buffer& buffer, std::size_t index, std::size_t shares);

// What all ranks of the group must have called alike, in 64 bits: operation, type, counts, reduction and root. Where
// counts may differ between ranks (all_to_all, gather, scatter with parts) they are not in it.
std::uint64_t fingerprint_of(const Call& call, int size);

// "f32[1024]".
std::string describe(const ConstBuffer& buffer);

// "all_reduce max #12 of f32[1024] ('bucket 3')".
std::string describe(const Call& call);

}  // namespace ddp::internal
