// This file declares the part of NCCL's stable binary interface (nccl.h) that is used.
#include "runtime/backend/nccl/nccl_api.h"

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <memory>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

#include "runtime/backend/nccl/nccl_errors.h"
#include "runtime/backend/nccl/shared_library.h"
#include "runtime/limits.h"

namespace ddp::internal {
namespace {

// The library takes and returns an ncclUniqueId by value. It has 128 bytes.
static_assert(sizeof(NcclUniqueId) == 128 && std::is_trivially_copyable_v<NcclUniqueId>);

// This is ncclConfig_t of NCCL 2.19. Newer versions have more fields after these, and see from `version` that they are
// missing.
struct Config {
  static constexpr int kUndefined = INT_MIN;

  std::size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21903;
  int blocking = 0;
  int cga_cluster_size = kUndefined;
  int min_ctas = kUndefined;
  int max_ctas = kUndefined;
  const char* net_name = nullptr;
  int split_share = kUndefined;
};

// Functions that find() returned may be null.
struct NcclFunctions : SharedLibrary {
  using SharedLibrary::SharedLibrary;

  NcclResult (*get_version)(int* version) = require("ncclGetVersion");
  NcclResult (*get_unique_id)(NcclUniqueId* id) = require("ncclGetUniqueId");
  NcclResult (*init_rank)(NcclComm* comm, int size, NcclUniqueId id, int rank,
                          Config* config) = require("ncclCommInitRankConfig");
  NcclResult (*get_async_error)(NcclComm comm, NcclResult* state) = require("ncclCommGetAsyncError");
  NcclResult (*finalize)(NcclComm comm) = require("ncclCommFinalize");
  NcclResult (*destroy)(NcclComm comm) = require("ncclCommDestroy");
  NcclResult (*abort)(NcclComm comm) = require("ncclCommAbort");
  NcclResult (*all_reduce)(const void*, void*, std::size_t, NcclType, NcclOp, NcclComm,
                           CudaStreamHandle) = require("ncclAllReduce");
  NcclResult (*reduce)(const void*, void*, std::size_t, NcclType, NcclOp, int, NcclComm,
                       CudaStreamHandle) = require("ncclReduce");
  NcclResult (*broadcast)(const void*, void*, std::size_t, NcclType, int, NcclComm,
                          CudaStreamHandle) = require("ncclBroadcast");
  NcclResult (*all_gather)(const void*, void*, std::size_t, NcclType, NcclComm,
                           CudaStreamHandle) = require("ncclAllGather");
  NcclResult (*reduce_scatter)(const void*, void*, std::size_t, NcclType, NcclOp, NcclComm,
                               CudaStreamHandle) = require("ncclReduceScatter");
  NcclResult (*send)(const void*, std::size_t, NcclType, int, NcclComm, CudaStreamHandle) = require("ncclSend");
  NcclResult (*receive)(void*, std::size_t, NcclType, int, NcclComm, CudaStreamHandle) = require("ncclRecv");
  NcclResult (*group_start)() = require("ncclGroupStart");
  NcclResult (*group_end)() = require("ncclGroupEnd");
  NcclResult (*create_premultiplied_sum)(NcclOp* op, void* scalar, NcclType type, int residence,
                                         NcclComm comm) = require("ncclRedOpCreatePreMulSum");
  NcclResult (*destroy_op)(NcclOp op, NcclComm comm) = require("ncclRedOpDestroy");
  const char* (*get_error_string)(NcclResult result) = require("ncclGetErrorString");
  const char* (*get_last_error)(NcclComm comm) = require("ncclGetLastError");
  NcclResult (*split)(NcclComm comm, int color, int key, NcclComm* made, Config* config) = find("ncclCommSplit");
  NcclResult (*allocate)(void** memory, std::size_t bytes) = find("ncclMemAlloc");
  NcclResult (*release)(void* memory) = find("ncclMemFree");
  NcclResult (*register_buffer)(NcclComm comm, void* memory, std::size_t bytes,
                                void** handle) = find("ncclCommRegister");
  NcclResult (*deregister_buffer)(NcclComm comm, void* handle) = find("ncclCommDeregister");
};

// exit() destroys what NCCL's functions use, while threads that free memory or end communicators may still call them. A
// call crashes then. So a handler, which runs before NCCL's own ones, lets running calls end, and no other call reaches
// NCCL. See docs/development/decisions/0052-nccl-is-not-called-after-exit.md.
std::atomic<bool> exit_has_begun = false;
std::atomic<int> local_calls = 0;   // running calls that do not wait for other ranks
std::atomic<int> common_calls = 0;  // running calls that may wait for other ranks

void wait_until_none_runs(const std::atomic<int>& calls, std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (calls > 0 && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(limits::kPeerPoll);
}

void end_calls_at_exit() {
  static const ::pid_t process = ::getpid();
  std::atexit([] {
    if (::getpid() != process) return;  // a forked child has no other threads
    exit_has_begun = true;
    wait_until_none_runs(common_calls, limits::kNcclCommonExitWait);
    wait_until_none_runs(local_calls, limits::kNcclLocalExitWait);
  });
}

// Lets the function be called until the process ends. Afterwards it returns `otherwise`.
template <typename... Args>
void until_exit(std::function<NcclResult(Args...)>& function, std::atomic<int>& calls,
                NcclResult otherwise = NcclResult::invalid_usage) {
  if (!function) return;
  function = [real = std::move(function), &calls, otherwise](Args... args) {
    ++calls;  // a handler that does not see this call is seen by it
    const NcclResult result = exit_has_begun ? otherwise : real(std::forward<Args>(args)...);
    --calls;
    return result;
  };
}

void end_at_exit(NcclApi& api) {
  end_calls_at_exit();
  until_exit(api.get_unique_id, local_calls);
  until_exit(api.init_rank, common_calls);
  until_exit(api.split, common_calls);
  until_exit(api.async_error, local_calls, NcclResult::in_progress);  // it has not failed
  until_exit(api.finalize, common_calls);
  until_exit(api.destroy, local_calls);
  until_exit(api.abort, local_calls);
  until_exit(api.all_reduce, common_calls);
  until_exit(api.reduce, common_calls);
  until_exit(api.broadcast, common_calls);
  until_exit(api.all_gather, common_calls);
  until_exit(api.reduce_scatter, common_calls);
  until_exit(api.send, common_calls);
  until_exit(api.receive, common_calls);
  until_exit(api.group_start, common_calls);
  until_exit(api.group_end, common_calls);
  until_exit(api.create_premultiplied_sum, local_calls);
  until_exit(api.destroy_op, local_calls);
  until_exit(api.allocate, local_calls);
  until_exit(api.release, local_calls);
  until_exit(api.register_buffer, local_calls);
  until_exit(api.deregister_buffer, local_calls);
}

// NCCL prefers this variable to the configuration of a communicator, and reads it as an integer in any notation of C.
// It puts the variables of nccl.conf into the environment.
std::optional<bool> variable_blocks() {
  const char* text = std::getenv("NCCL_COMM_BLOCKING");  // NOLINT(concurrency-mt-unsafe)
  return text == nullptr ? std::nullopt : std::optional(std::strtoll(text, nullptr, 0) == 1);
}

NcclApi table_of(const std::shared_ptr<const NcclFunctions>& f) {
  NcclApi api;
  api.get_unique_id = [f](NcclUniqueId& id) { return f->get_unique_id(&id); };
  api.init_rank = [f](NcclComm& comm, int size, const NcclUniqueId& id, int rank, bool blocking) {
    Config config;
    config.blocking = blocking ? 1 : 0;
    return f->init_rank(&comm, size, id, rank, &config);
  };
  if (f->split != nullptr) {
    // Without a separate configuration, the new communicator blocks or not, like its parent.
    api.split = [f](NcclComm comm, int color, int key, NcclComm& made) {
      return f->split(comm, color, key, &made, nullptr);
    };
  }
  api.async_error = [f](NcclComm comm) {
    NcclResult state = NcclResult::success;
    const NcclResult result = f->get_async_error(comm, &state);
    return result == NcclResult::success ? state : result;
  };
  api.finalize = f->finalize;
  api.destroy = f->destroy;
  api.abort = f->abort;
  api.all_reduce = f->all_reduce;
  api.reduce = f->reduce;
  api.broadcast = f->broadcast;
  api.all_gather = f->all_gather;
  api.reduce_scatter = f->reduce_scatter;
  api.send = f->send;
  api.receive = f->receive;
  api.group_start = f->group_start;
  api.group_end = f->group_end;
  api.create_premultiplied_sum = [f](NcclOp& op, void* scalar, NcclType type, NcclComm comm) {
    constexpr int kHostImmediate = 1;  // ncclScalarHostImmediate: the scalar is read before the call returns
    return f->create_premultiplied_sum(&op, scalar, type, kHostImmediate, comm);
  };
  api.destroy_op = f->destroy_op;
  if (f->allocate != nullptr && f->release != nullptr) {
    api.allocate = [f](void*& memory, std::size_t bytes) { return f->allocate(&memory, bytes); };
    api.release = f->release;
  }
  if (f->register_buffer != nullptr && f->deregister_buffer != nullptr) {
    api.register_buffer = [f](NcclComm comm, void* memory, std::size_t bytes, void*& handle) {
      return f->register_buffer(comm, memory, bytes, &handle);
    };
    api.deregister_buffer = f->deregister_buffer;
  }
  api.error_string = [f](NcclResult result) -> std::string { return f->get_error_string(result); };
  api.last_error = [f](NcclComm comm) -> std::string {
    const char* text = f->get_last_error(comm);
    return text == nullptr ? "" : text;
  };
  return api;
}

}  // namespace

NcclLibrary open_nccl(const char* file) {
  const auto functions = std::make_shared<const NcclFunctions>(file);
  const std::string& obstacle = functions->obstacle();
  if (!obstacle.empty()) return {{}, no_nccl_text(file, obstacle)};
  NcclLibrary found{table_of(functions), ""};
  end_at_exit(found.api);
  functions->get_version(&found.api.version);
  found.api.environment_blocks = variable_blocks;
  found.api.blocking = variable_blocks().value_or(true);
  if (found.api.version < kOldestNccl) {
    found.obstacle = old_nccl_text(nccl_version_text(found.api.version), nccl_version_text(kOldestNccl));
  }
  return found;
}

std::string nccl_version_text(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

const NcclLibrary& nccl_library() {
  // Threads of the backend may still use it while the process ends, so it is never destroyed.
  static const auto* library = new NcclLibrary(open_nccl("libnccl.so.2"));
  return *library;
}

}  // namespace ddp::internal
