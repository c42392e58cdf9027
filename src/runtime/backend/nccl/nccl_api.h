// NcclApi is a table of the NCCL functions that the backend calls. nccl_api.cpp fills it with the functions of
// libnccl.so.2; tests change single entries. No other code of the runtime depends on NCCL.
#pragma once

#include <ddp/buffer.h>

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "runtime/backend/nccl/cuda_api.h"

namespace ddp::internal {

// These are NCCL's own numbers of ncclResult_t, ncclDataType_t and ncclRedOp_t. They never change.
enum class NcclResult : int {
  success = 0,
  unhandled_cuda_error = 1,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
  in_progress = 7,
  timeout = 8,  // since NCCL 2.31
};

constexpr bool is_failure(NcclResult result) {
  return result != NcclResult::success && result != NcclResult::in_progress;
}

enum class NcclType : int { i8 = 0, u8 = 1, i32 = 2, i64 = 4, f16 = 6, f32 = 7, f64 = 8, bf16 = 9 };
// premultiplied_sum stands for any operation that create_premultiplied_sum makes. Such an operation is a value that is
// not among these.
enum class NcclOp : int { sum = 0, product = 1, max = 2, min = 3, average = 4, premultiplied_sum = -1 };

// Rank 0 makes the id, and every rank needs it to find the others. The runtime does not interpret its bytes.
using NcclUniqueId = std::array<char, 128>;
using NcclComm = void*;

inline constexpr int kNcclNoColor = -1;

// A call on a non-blocking communicator may return `in_progress`; it is complete when `async_error` returns `success`.
// Functions marked "may be null" are not in every version.
struct NcclApi {
  int version = 0;  // 22304 means 2.23.4
  // Communicators are blocking: a call returns when it is complete, and it waits for other ranks if it connects them.
  // NCCL starts a thread for each call on a non-blocking one, which costs 0.1 ms.
  bool blocking = true;
  // Returns whether the environment makes communicators blocking, if it says so. NCCL puts the variables of its
  // configuration files there at its first call, so the answer is final only after a call of init_rank.
  std::function<std::optional<bool>()> environment_blocks = [] { return std::nullopt; };
  std::function<NcclResult(NcclUniqueId& id)> get_unique_id;
  std::function<NcclResult(NcclComm& comm, int size, const NcclUniqueId& id, int rank, bool blocking)> init_rank;
  // Splits `comm`; all its ranks call it. A rank with kNcclNoColor gets null. The function may be null.
  std::function<NcclResult(NcclComm comm, int color, int key, NcclComm& made)> split;
  // Returns the state of the communicator: `success`, `in_progress`, or the error that broke it.
  std::function<NcclResult(NcclComm comm)> async_error;
  std::function<NcclResult(NcclComm comm)> finalize;
  std::function<NcclResult(NcclComm comm)> destroy;
  std::function<NcclResult(NcclComm comm)> abort;

  // The collectives take device pointers only. Counts are in elements.
  std::function<NcclResult(const void* send, void* receive, std::size_t count, NcclType type, NcclOp op, NcclComm comm,
                           CudaStreamHandle stream)>
      all_reduce;
  std::function<NcclResult(const void* send, void* receive, std::size_t count, NcclType type, NcclOp op, int root,
                           NcclComm comm, CudaStreamHandle stream)>
      reduce;
  std::function<NcclResult(const void* send, void* receive, std::size_t count, NcclType type, int root, NcclComm comm,
                           CudaStreamHandle stream)>
      broadcast;
  // Gathers `count` elements of each rank. The operation is in place if `send` is this rank's part of `receive`.
  std::function<NcclResult(const void* send, void* receive, std::size_t count, NcclType type, NcclComm comm,
                           CudaStreamHandle stream)>
      all_gather;
  // Gives each rank `count` elements of the result.
  std::function<NcclResult(const void* send, void* receive, std::size_t count, NcclType type, NcclOp op, NcclComm comm,
                           CudaStreamHandle stream)>
      reduce_scatter;
  std::function<NcclResult(const void* send, std::size_t count, NcclType type, int peer, NcclComm comm,
                           CudaStreamHandle stream)>
      send;
  std::function<NcclResult(void* receive, std::size_t count, NcclType type, int peer, NcclComm comm,
                           CudaStreamHandle stream)>
      receive;
  std::function<NcclResult()> group_start;
  std::function<NcclResult()> group_end;

  // Creates an operation that sums each rank's values times the rank's `scalar` (one element in host memory).
  std::function<NcclResult(NcclOp& op, void* scalar, NcclType type, NcclComm comm)> create_premultiplied_sum;
  std::function<NcclResult(NcclOp op, NcclComm comm)> destroy_op;

  // These functions manage GPU memory that NCCL can use without making copies. They may be null.
  std::function<NcclResult(void*& memory, std::size_t bytes)> allocate;
  std::function<NcclResult(void* memory)> release;
  std::function<NcclResult(NcclComm comm, void* memory, std::size_t bytes, void*& handle)> register_buffer;
  std::function<NcclResult(NcclComm comm, void* handle)> deregister_buffer;

  std::function<std::string(NcclResult result)> error_string;
  // Returns NCCL's message about the latest failure in this process. It may be empty.
  std::function<std::string(NcclComm comm)> last_error;
};

// Returns the version as text, such as "2.23.4".
std::string nccl_version_text(int version);

// Older versions cannot split communicators or register buffers.
inline constexpr int kOldestNccl = 21900;

struct NcclLibrary {
  NcclApi api;
  std::string obstacle;  // why NCCL cannot be used, empty if it can
};

// Opens the library and finds the functions in it. The library stays open.
NcclLibrary open_nccl(const char* file);

// Returns libnccl.so.2: the library that the program has already loaded, else the one on the loader's path. It is
// opened once per process. Any thread may call the function.
const NcclLibrary& nccl_library();

}  // namespace ddp::internal
