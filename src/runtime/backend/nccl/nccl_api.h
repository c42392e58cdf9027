// NcclApi: the NCCL calls that the backend makes, as a table. nccl_plugin.cpp fills it with NCCL, the tests fill it
// with a double; nothing else in this folder knows NCCL's header.
#pragma once

#include <ddp/buffer.h>
#include <ddp/process_group.h>

#include <array>
#include <cstddef>
#include <functional>
#include <string>

#include "runtime/backend/nccl/cuda_api.h"

namespace ddp {

// NCCL's own numbers; nccl_plugin.cpp checks that they are.
enum class NcclResult : int {
  success = 0,
  unhandled_cuda_error = 1,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
  in_progress = 7,
};

constexpr bool is_failure(NcclResult result) {
  return result != NcclResult::success && result != NcclResult::in_progress;
}

// What rank 0 makes and every rank needs to find the others. Bytes without meaning to us.
using NcclUniqueId = std::array<char, 128>;
using NcclComm = void*;

// Every communicator is non-blocking: a call may return `in_progress`, and is over when `async_error` says `success`.
struct NcclApi {
  std::function<NcclResult(NcclUniqueId& id)> get_unique_id;
  std::function<NcclResult(NcclComm& comm, int size, const NcclUniqueId& id, int rank)> init_rank;
  // The state of the communicator: `success`, `in_progress`, or what broke it.
  std::function<NcclResult(NcclComm comm)> async_error;
  std::function<NcclResult(NcclComm comm)> finalize;
  std::function<NcclResult(NcclComm comm)> destroy;
  std::function<NcclResult(NcclComm comm)> abort;

  // Device pointers only. `average` divides before it sums.
  std::function<NcclResult(const void* send, void* receive, std::size_t count, DataType type, ReduceOp op,
                           NcclComm comm, CudaStreamHandle stream)>
      all_reduce;
  std::function<NcclResult(const void* send, void* receive, std::size_t count, DataType type, int root, NcclComm comm,
                           CudaStreamHandle stream)>
      broadcast;
  // `send_count` elements of each rank; in place if `send` is this rank's part of `receive`.
  std::function<NcclResult(const void* send, void* receive, std::size_t send_count, DataType type, NcclComm comm,
                           CudaStreamHandle stream)>
      all_gather;

  std::function<std::string(NcclResult result)> error_string;
  // What NCCL says about the latest failure in this process; may be empty.
  std::function<std::string(NcclComm comm)> last_error;
};

}  // namespace ddp
