// What is declared here is NCCL's stable binary interface (nccl.h), as far as it is used.
#include "runtime/backend/nccl/nccl_library.h"

#include <climits>
#include <cstring>

#include "runtime/backend/nccl/shared_library.h"

namespace ddp::internal {
namespace {

using Result = int;  // ncclResult_t

struct UniqueId {
  char bytes[128];
};
static_assert(sizeof(UniqueId) == sizeof(NcclUniqueId));

// ncclConfig_t of NCCL 2.19. Newer versions have more behind it, and see by `version` that it is not there.
struct Config {
  static constexpr int kUndefined = INT_MIN;

  std::size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21903;
  int blocking = 0;  // only a non-blocking communicator can be aborted safely
  int cga_cluster_size = kUndefined;
  int min_ctas = kUndefined;
  int max_ctas = kUndefined;
  const char* net_name = nullptr;
  int split_share = kUndefined;
};

struct Functions {
  Result (*get_version)(int* version);
  Result (*get_unique_id)(UniqueId* id);
  Result (*init_rank)(NcclComm* comm, int size, UniqueId id, int rank, Config* config);
  Result (*split)(NcclComm comm, int color, int key, NcclComm* made, Config* config);
  Result (*get_async_error)(NcclComm comm, Result* state);
  Result (*finalize)(NcclComm comm);
  Result (*destroy)(NcclComm comm);
  Result (*abort)(NcclComm comm);
  Result (*all_reduce)(const void*, void*, std::size_t, NcclType, NcclOp, NcclComm, CudaStreamHandle);
  Result (*reduce)(const void*, void*, std::size_t, NcclType, NcclOp, int, NcclComm, CudaStreamHandle);
  Result (*broadcast)(const void*, void*, std::size_t, NcclType, int, NcclComm, CudaStreamHandle);
  Result (*all_gather)(const void*, void*, std::size_t, NcclType, NcclComm, CudaStreamHandle);
  Result (*reduce_scatter)(const void*, void*, std::size_t, NcclType, NcclOp, NcclComm, CudaStreamHandle);
  Result (*send)(const void*, std::size_t, NcclType, int, NcclComm, CudaStreamHandle);
  Result (*receive)(void*, std::size_t, NcclType, int, NcclComm, CudaStreamHandle);
  Result (*group_start)();
  Result (*group_end)();
  Result (*create_premultiplied_sum)(NcclOp* op, void* scalar, NcclType type, int residence, NcclComm comm);
  Result (*destroy_op)(NcclOp op, NcclComm comm);
  Result (*allocate)(void** memory, std::size_t bytes);
  Result (*release)(void* memory);
  Result (*register_buffer)(NcclComm comm, void* memory, std::size_t bytes, void** handle);
  Result (*deregister_buffer)(NcclComm comm, void* handle);
  const char* (*get_error_string)(Result result);
  const char* (*get_last_error)(NcclComm comm);
};

Functions look_up(SharedLibrary& library) {
  Functions f{};
  library.require("ncclGetVersion", f.get_version);
  library.require("ncclGetUniqueId", f.get_unique_id);
  library.require("ncclCommInitRankConfig", f.init_rank);
  library.require("ncclCommGetAsyncError", f.get_async_error);
  library.require("ncclCommFinalize", f.finalize);
  library.require("ncclCommDestroy", f.destroy);
  library.require("ncclCommAbort", f.abort);
  library.require("ncclAllReduce", f.all_reduce);
  library.require("ncclReduce", f.reduce);
  library.require("ncclBroadcast", f.broadcast);
  library.require("ncclAllGather", f.all_gather);
  library.require("ncclReduceScatter", f.reduce_scatter);
  library.require("ncclSend", f.send);
  library.require("ncclRecv", f.receive);
  library.require("ncclGroupStart", f.group_start);
  library.require("ncclGroupEnd", f.group_end);
  library.require("ncclRedOpCreatePreMulSum", f.create_premultiplied_sum);
  library.require("ncclRedOpDestroy", f.destroy_op);
  library.require("ncclGetErrorString", f.get_error_string);
  library.require("ncclGetLastError", f.get_last_error);
  library.find("ncclCommSplit", f.split);
  library.find("ncclMemAlloc", f.allocate);
  library.find("ncclMemFree", f.release);
  library.find("ncclCommRegister", f.register_buffer);
  library.find("ncclCommDeregister", f.deregister_buffer);
  return f;
}

// The same function with our result type; null stays null.
template <typename... Arguments>
std::function<NcclResult(Arguments...)> ours(Result (*function)(Arguments...)) {
  if (function == nullptr) return nullptr;
  return [function](Arguments... arguments) { return static_cast<NcclResult>(function(arguments...)); };
}

NcclApi table_of(const Functions& f) {
  NcclApi api;
  api.get_unique_id = [f](NcclUniqueId& id) {
    UniqueId made;
    const Result result = f.get_unique_id(&made);
    std::memcpy(id.data(), made.bytes, id.size());
    return static_cast<NcclResult>(result);
  };
  api.init_rank = [f](NcclComm& comm, int size, const NcclUniqueId& id, int rank) {
    UniqueId unique_id;
    std::memcpy(unique_id.bytes, id.data(), id.size());
    Config config;
    return static_cast<NcclResult>(f.init_rank(&comm, size, unique_id, rank, &config));
  };
  if (f.split != nullptr) {
    // Without a configuration of its own the new communicator is non-blocking, as its parent.
    api.split = [f](NcclComm comm, int color, int key, NcclComm& made) {
      return static_cast<NcclResult>(f.split(comm, color, key, &made, nullptr));
    };
  }
  api.async_error = [f](NcclComm comm) {
    Result state = 0;
    const Result result = f.get_async_error(comm, &state);
    return static_cast<NcclResult>(result == 0 ? state : result);
  };
  api.finalize = ours(f.finalize);
  api.destroy = ours(f.destroy);
  api.abort = ours(f.abort);
  api.all_reduce = ours(f.all_reduce);
  api.reduce = ours(f.reduce);
  api.broadcast = ours(f.broadcast);
  api.all_gather = ours(f.all_gather);
  api.reduce_scatter = ours(f.reduce_scatter);
  api.send = ours(f.send);
  api.receive = ours(f.receive);
  api.group_start = ours(f.group_start);
  api.group_end = ours(f.group_end);
  api.create_premultiplied_sum = [f](NcclOp& op, void* scalar, NcclType type, NcclComm comm) {
    constexpr int kHostImmediate = 1;  // ncclScalarHostImmediate: read before the call returns
    return static_cast<NcclResult>(f.create_premultiplied_sum(&op, scalar, type, kHostImmediate, comm));
  };
  api.destroy_op = ours(f.destroy_op);
  if (f.allocate != nullptr && f.release != nullptr) {
    api.allocate = [f](void*& memory, std::size_t bytes) {
      return static_cast<NcclResult>(f.allocate(&memory, bytes));
    };
    api.release = ours(f.release);
  }
  if (f.register_buffer != nullptr && f.deregister_buffer != nullptr) {
    api.register_buffer = [f](NcclComm comm, void* memory, std::size_t bytes, void*& handle) {
      return static_cast<NcclResult>(f.register_buffer(comm, memory, bytes, &handle));
    };
    api.deregister_buffer = ours(f.deregister_buffer);
  }
  api.error_string = [f](NcclResult result) -> std::string { return f.get_error_string(static_cast<Result>(result)); };
  api.last_error = [f](NcclComm comm) -> std::string {
    const char* text = f.get_last_error(comm);
    return text == nullptr ? "" : text;
  };
  return api;
}

}  // namespace

NcclLibrary open_nccl(const char* file) {
  SharedLibrary library(file);
  const Functions functions = look_up(library);
  if (!library.obstacle().empty()) {
    return {{},
            "NCCL cannot be used (" + std::string(file) + ": " + library.obstacle() +
                "). Install it, or put its folder into LD_LIBRARY_PATH."};
  }
  NcclLibrary found{table_of(functions), ""};
  functions.get_version(&found.api.version);
  if (found.api.version < kOldestNccl) {
    found.obstacle = "NCCL " + nccl_version_text(found.api.version) + " is too old; " + nccl_version_text(kOldestNccl) +
                     " or newer is needed";
  }
  return found;
}

std::string nccl_version_text(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

const NcclLibrary& nccl_library() {
  static const NcclLibrary library = open_nccl("libnccl.so.2");
  return library;
}

}  // namespace ddp::internal
