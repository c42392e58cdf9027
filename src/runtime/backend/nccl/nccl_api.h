// NcclApi is a table of the NCCL functions that the backend calls: the part of NCCL's stable binary interface (nccl.h)
// that is used. No other code of the runtime depends on NCCL. Tests open a library that simulates NCCL, and change
// single entries.
#pragma once

#include <array>
#include <atomic>
#include <climits>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "runtime/backend/nccl/cuda_api.h"
#include "runtime/backend/nccl/shared_library.h"

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
inline constexpr int kNcclHostImmediate = 1;  // ncclScalarHostImmediate: a scalar is read before the call returns

// This is ncclConfig_t of NCCL 2.19. Newer versions have more fields after these, and see from `version` that they are
// missing.
struct NcclConfig {
  static constexpr int kUndefined = INT_MIN;

  std::size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 21903;
  int blocking = 0;
  int cga_cluster_size = kUndefined;
  int min_ctas = kUndefined;
  int max_ctas = kUndefined;
  const char* net_name = nullptr;
  int split_share = kUndefined;
};

// exit() destroys what NCCL's functions use, while threads that free memory or end communicators may still call them. A
// call crashes then. So a handler, which runs before NCCL's own ones, lets running calls end, and no other call reaches
// NCCL. See docs/development/decisions/0052-nccl-is-not-called-after-exit.md.
struct NcclExit {
  static inline std::atomic<bool> has_begun = false;
  static inline std::atomic<int> local_calls = 0;   // running calls that do not wait for other ranks
  static inline std::atomic<int> common_calls = 0;  // running calls that may wait for other ranks
};

// A function of NCCL, which is called until the process ends. Afterwards it returns `otherwise`. It may be null.
template <std::atomic<int>& kRunning, typename... Args>
struct NcclCall {
  NcclResult (*function)(Args...) = nullptr;
  NcclResult otherwise = NcclResult::invalid_usage;

  explicit operator bool() const { return function != nullptr; }
  NcclResult operator()(Args... args) const {
    ++kRunning;  // a handler that does not see this call is seen by it
    const NcclResult result = NcclExit::has_begun ? otherwise : function(std::forward<Args>(args)...);
    --kRunning;
    return result;
  }
};
template <typename... Args>
using NcclLocalCall = NcclCall<NcclExit::local_calls, Args...>;
template <typename... Args>
using NcclCommonCall = NcclCall<NcclExit::common_calls, Args...>;

// A call on a non-blocking communicator may return `in_progress`; it is complete when `async_error` returns `success`.
// A reference is a pointer in the binary interface. The functions that find() looks up are not in every version, and
// may be null.
struct NcclApi : SharedLibrary {
  // Opens the library, which stays open, and finds the functions in it.
  explicit NcclApi(const char* file);

  int version = 0;  // 22304 means 2.23.4
  // Communicators are blocking: a call returns when it is complete, and it waits for other ranks if it connects them.
  // NCCL starts a thread for each call on a non-blocking one, which costs 0.1 ms.
  bool blocking = true;

  NcclResult (*get_version)(int& version) = require("ncclGetVersion");
  NcclLocalCall<NcclUniqueId&> get_unique_id{require("ncclGetUniqueId")};
  NcclCommonCall<NcclComm&, int, NcclUniqueId, int, NcclConfig&> init_rank{require("ncclCommInitRankConfig")};
  // Splits a communicator by color and key; all its ranks call it. A rank with kNcclNoColor gets null. Without a
  // configuration, the new communicator blocks or not, like its parent.
  NcclCommonCall<NcclComm, int, int, NcclComm&, NcclConfig*> split{find("ncclCommSplit")};
  NcclLocalCall<NcclComm, NcclResult&> get_async_error{require("ncclCommGetAsyncError"), NcclResult::in_progress};
  NcclCommonCall<NcclComm> finalize{require("ncclCommFinalize")};
  NcclLocalCall<NcclComm> destroy{require("ncclCommDestroy")};
  NcclLocalCall<NcclComm> abort{require("ncclCommAbort")};

  // The collectives take device pointers only. Counts are in elements. The parameters are what is sent, what is
  // received, the count, the type, the operation, the root or the peer, the communicator and the stream.
  NcclCommonCall<const void*, void*, std::size_t, NcclType, NcclOp, NcclComm, CudaStreamHandle> all_reduce{
      require("ncclAllReduce")};
  NcclCommonCall<const void*, void*, std::size_t, NcclType, NcclOp, int, NcclComm, CudaStreamHandle> reduce{
      require("ncclReduce")};
  NcclCommonCall<const void*, void*, std::size_t, NcclType, int, NcclComm, CudaStreamHandle> broadcast{
      require("ncclBroadcast")};
  // Gathers `count` elements of each rank. The operation is in place if what is sent is this rank's part of the result.
  NcclCommonCall<const void*, void*, std::size_t, NcclType, NcclComm, CudaStreamHandle> all_gather{
      require("ncclAllGather")};
  // Gives each rank `count` elements of the result.
  NcclCommonCall<const void*, void*, std::size_t, NcclType, NcclOp, NcclComm, CudaStreamHandle> reduce_scatter{
      require("ncclReduceScatter")};
  NcclCommonCall<const void*, std::size_t, NcclType, int, NcclComm, CudaStreamHandle> send{require("ncclSend")};
  NcclCommonCall<void*, std::size_t, NcclType, int, NcclComm, CudaStreamHandle> receive{require("ncclRecv")};
  NcclCommonCall<> group_start{require("ncclGroupStart")};
  NcclCommonCall<> group_end{require("ncclGroupEnd")};

  // Creates an operation that sums each rank's values times the rank's scalar (one element in host memory).
  NcclLocalCall<NcclOp&, void*, NcclType, int, NcclComm> create_premultiplied_sum{require("ncclRedOpCreatePreMulSum")};
  NcclLocalCall<NcclOp, NcclComm> destroy_op{require("ncclRedOpDestroy")};

  // These functions manage GPU memory that NCCL can use without making copies. Both of a pair may be null.
  NcclLocalCall<void*&, std::size_t> allocate{find("ncclMemAlloc")};
  NcclLocalCall<void*> release{find("ncclMemFree")};
  NcclLocalCall<NcclComm, void*, std::size_t, void*&> register_buffer{find("ncclCommRegister")};
  NcclLocalCall<NcclComm, void*> deregister_buffer{find("ncclCommDeregister")};

  const char* (*error_string)(NcclResult result) = require("ncclGetErrorString");
  const char* (*get_last_error)(NcclComm comm) = require("ncclGetLastError");

  NcclResult init(NcclComm& comm, int size, const NcclUniqueId& id, int rank, bool blocks) const;
  // Returns the state of the communicator: `success`, `in_progress`, or the error that broke it.
  NcclResult async_error(NcclComm comm) const;
  // Returns NCCL's message about the latest failure in this process. It may be empty.
  std::string last_error() const;
  // Returns whether the environment makes communicators blocking, if it says so. NCCL puts the variables of its
  // configuration files there at its first call, so the answer is final only after a call of init_rank.
  static std::optional<bool> environment_blocks();
};

// Returns the version as text, such as "2.23.4".
std::string nccl_version_text(int version);

// Older versions cannot split communicators or register buffers.
inline constexpr int kOldestNccl = 21900;

// Returns libnccl.so.2: the library that the program has already loaded, else the one on the loader's path. It is
// opened once per process. Any thread may call the function.
const NcclApi& nccl_library();

}  // namespace ddp::internal
