// A Call describes one operation of a process group as a value. Calls are checked, compared between ranks, queued,
// carried out and named in messages.
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

// Returns whether the operation is between two ranks. All other operations are collectives.
constexpr bool is_transfer(Operation operation) {
  return operation == Operation::send || operation == Operation::recv;
}

constexpr bool has_reduction(Operation operation) {
  return operation == Operation::all_reduce || operation == Operation::reduce || operation == Operation::reduce_scatter;
}

// Numbers from here on belong to calls that the library adds to the program's calls.
inline constexpr std::uint64_t kOwnCalls = std::uint64_t{1} << 61;

struct Call {
  Operation operation = Operation::barrier;
  // all_reduce, reduce and broadcast work in place: both buffers are the same memory.
  ConstBuffer input;
  Buffer output;
  // If input or output consist of separate parts, there is one part per rank. If these are empty, the parts have equal
  // size and follow each other.
  std::vector<ConstBuffer> input_parts;
  std::vector<Buffer> output_parts;
  ReduceOp op;
  int peer = -1;  // the root; for send and recv, the other rank

  Stream stream;  // the caller's CUDA stream; its present work completes before the operation begins
  std::chrono::milliseconds timeout{0};  // 0 means the backend's own timeout
  bool is_programs_timeout = false;      // the program has set the timeout
  std::string name;
  CallSite site;
  std::uint64_t sequence = 0;                       // number from 1, given by the group
  std::chrono::steady_clock::time_point called_at;  // given by the group
  std::uint64_t fingerprint = 0;                    // see fingerprint_of; given by the group
};

// Returns the buffer whose element count and type appear in messages.
ConstBuffer subject_of(const Call& call);

// Says how many operations may have begun and be unfinished when another one begins: `always` so many, and up to `most`
// as long as their buffers have no more than `bytes` together.
struct BeginsAhead {
  std::size_t always = 0;
  std::size_t most = 0;
  std::size_t bytes = 0;
};

// In operations that consist of parts, these functions return the part that this rank gives to `rank`, or gets from it.
ConstBuffer input_part(const Call& call, int rank, int size);
Buffer output_part(const Call& call, int rank, int size);

// Describes one share of a buffer that is divided into `shares`. Shares are equal and begin at multiples of 64 bytes.
// The last ones may be shorter, or empty.
struct Share {
  std::size_t first = 0;
  std::size_t count = 0;
};
Share share_of(std::size_t count, DataType type, std::size_t index, std::size_t shares);
// Returns the number of elements of a share that is not shortened.
std::size_t full_share(std::size_t count, DataType type, std::size_t shares);
Buffer share_of(const Buffer& buffer, std::size_t index, std::size_t shares);

// Returns a 64-bit hash of all values on which the ranks' calls must agree: operation, type, counts, reduction, root
// and name. It does not include counts that may differ between ranks (all_to_all, gather, scatter).
std::uint64_t fingerprint_of(const Call& call, int size);

// Returns text such as "f32[1024]".
std::string describe(const ConstBuffer& buffer);

// Returns text such as "all_reduce max #12 of f32[1024] ('bucket 3')".
std::string describe(const Call& call);

}  // namespace ddp::internal
