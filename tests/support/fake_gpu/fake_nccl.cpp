// Implements the part of libnccl.so.2 that the runtime uses.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <string>

#include "support/fake_gpu/fake_comm.h"
#include "support/fake_gpu/fake_gpu.h"
#include "support/fake_gpu/fake_profiler.h"

using namespace fake_gpu;

namespace {

template <typename Action>
void in_pieces(std::size_t bytes, std::size_t piece, Action&& action) {
  for (std::size_t first = 0; first < bytes; first += piece) action(first, std::min(piece, bytes - first));
}

// As with NCCL, the buffer belongs to the receiver. So a sender is done when the last piece is in it, and may leave.
void give(Comm& comm, int to, const void* data, std::size_t bytes) {
  Meeting::Pair& pair = comm.meeting->pairs[comm.rank][to];
  in_pieces(bytes, kPairSlot, [&](std::size_t first, std::size_t piece) {
    comm.until([&] { return pair.filled == pair.emptied; });
    std::memcpy(comm.meeting->pair_slots[comm.rank][to], static_cast<const std::byte*>(data) + first, piece);
    ++pair.filled;
  });
}
void take(Comm& comm, int from, void* data, std::size_t bytes) {
  Meeting::Pair& pair = comm.meeting->pairs[from][comm.rank];
  in_pieces(bytes, kPairSlot, [&](std::size_t first, std::size_t piece) {
    comm.until([&] { return pair.filled != pair.emptied; });
    std::memcpy(static_cast<std::byte*>(data) + first, comm.meeting->pair_slots[from][comm.rank], piece);
    ++pair.emptied;
  });
}

// As with NCCL, exit() destroys what the functions use, before the process ends. A call after that crashes.
std::atomic<bool> is_over = false;
[[maybe_unused]] const int registered = std::atexit([] { is_over = true; });
void crash_after_exit() {
  if (is_over) std::abort();
}
Comm& usable_comm(void* handle) {
  crash_after_exit();
  return fake_gpu::comm_of(handle);
}

// As NCCL does, puts the variables of its configuration file into the environment, unless they are there.
void read_configuration() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const char* name = std::getenv("NCCL_CONF_FILE");
  std::ifstream file(name == nullptr ? "" : name);
  for (std::string line; std::getline(file, line);) {
    const std::size_t end = line.find('=');
    if (end != std::string::npos) ::setenv(line.substr(0, end).c_str(), line.substr(end + 1).c_str(), 0);
  }
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

struct UniqueId {
  char bytes[128];
};

EXPORT int ncclGetVersion(int* version) {
  *version = fake_gpu::version();
  return kSuccess;
}
EXPORT const char* ncclGetErrorString(int result) {
  return result == kSystemError ? "unhandled system error" : "invalid usage";
}
EXPORT const char* ncclGetLastError(void*) {
  return "said the fake";
}
EXPORT int ncclGetUniqueId(UniqueId* id) {
  read_configuration();
  std::memset(id, 0, sizeof *id);
  const std::string place = make_place();
  std::memcpy(id->bytes, place.data(), place.size());
  return kSuccess;
}
// The first fields of ncclConfig_t.
struct Config {
  std::size_t size;
  unsigned magic;
  unsigned version;
  int blocking;
};

EXPORT int ncclCommInitRankConfig(void** made, int size, UniqueId id, int rank, const Config* config) {
  constexpr std::size_t kSizeOfOldest = 24;
  constexpr unsigned kOldest = 21400;
  if (config->magic != 0xcafebeef || config->size < kSizeOfOldest || config->version < kOldest) return kInvalidArgument;
  if (config->blocking != 0 && config->blocking != 1) return kInvalidArgument;
  crash_after_exit();
  if (current_device() < 0) return kUnhandledCudaError;
  read_configuration();
  const char* blocking = std::getenv("NCCL_COMM_BLOCKING");
  auto* comm = make_comm();
  comm->rank = rank;
  comm->size = size;
  comm->device = current_device();
  comm->is_blocking = (blocking == nullptr ? config->blocking : std::strtoll(blocking, nullptr, 0)) == 1;
  if (comm->is_blocking) {
    join(*comm, id.bytes);
    if (comm->failure != 0) return comm->failure;
    std::atomic_ref<void*>(*made).store(comm, std::memory_order_release);
    return kSuccess;
  }
  // As with NCCL, the handle is set after the call has returned.
  std::thread([comm, made, place = std::string(id.bytes)] {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::atomic_ref<void*>(*made).store(comm, std::memory_order_release);
    join(*comm, place);
  }).detach();
  return kInProgress;
}
EXPORT int ncclCommSplit(void* handle, int color, int key, void** made, void*) {
  Comm& parent = usable_comm(handle);
  if (!parent.is_ready() || parent.pending > 0) return kInvalidUsage;
  parent.splitting = true;
  auto* comm = color < 0 ? nullptr : make_comm();
  if (comm != nullptr) {
    comm->device = parent.device;
    comm->is_blocking = parent.is_blocking;
  }
  std::thread split([&parent, comm, made, color, key] {
    struct Wish {
      int color;
      int key;
    };
    const Wish own{color, key};
    try {
      std::memcpy(parent.slot(parent.rank), &own, sizeof own);
      parent.barrier();
      std::vector<std::pair<int, int>> members;  // key, rank
      for (int rank = 0; rank < parent.size; ++rank) {
        Wish wish{};
        std::memcpy(&wish, parent.slot(rank), sizeof wish);
        if (wish.color == color) members.emplace_back(wish.key, rank);
      }
      std::sort(members.begin(), members.end());
      parent.barrier();
      const int leader = members[0].second;
      if (comm != nullptr && leader == parent.rank) {
        const std::string place = make_place();
        std::memcpy(parent.slot(parent.rank), place.c_str(), place.size() + 1);
      }
      parent.barrier();
      const std::string place(reinterpret_cast<const char*>(parent.slot(leader)));
      std::atomic_ref<void*>(*made).store(comm, std::memory_order_release);
      if (comm != nullptr) {
        comm->size = static_cast<int>(members.size());
        for (std::size_t i = 0; i < members.size(); ++i) {
          if (members[i].second == parent.rank) comm->rank = static_cast<int>(i);
        }
        join(*comm, place);
      }
      parent.barrier();
      parent.splitting = false;
    } catch (const Aborted&) {
    }
  });
  if (parent.is_blocking) {
    split.join();
    return parent.aborted ? kInvalidUsage : kSuccess;
  }
  split.detach();
  return kInProgress;
}
EXPORT int ncclCommGetAsyncError(void* handle, int* state) {
  Comm& comm = usable_comm(handle);
  *state = kSuccess;
  if (!comm.connected || comm.splitting || comm.connecting || (comm.finalized && comm.pending > 0))
    *state = kInProgress;
  if (comm.checks_left > 0) {
    --comm.checks_left;
    *state = kInProgress;
  }
  if (*state == kSuccess && !comm.aborted) put_on_streams(comm);
  if (comm.failure != 0) *state = comm.failure;
  if (sticky_error(comm.device) != 0) *state = kUnhandledCudaError;
  return kSuccess;
}
// The finalization of a blocking communicator waits for its operations.
EXPORT int ncclCommFinalize(void* handle) {
  Comm& comm = usable_comm(handle);
  comm.finalized = true;
  if (!comm.is_blocking) return kInProgress;
  while (comm.pending > 0 && !comm.aborted) std::this_thread::yield();
  return kSuccess;
}
EXPORT int ncclCommDestroy(void* handle) {
  Comm& comm = usable_comm(handle);
  if (!comm.finalized) return kInvalidUsage;
  end_profile(comm);
  return kSuccess;
}
EXPORT int ncclCommAbort(void* handle) {
  Comm& comm = usable_comm(handle);
  comm.aborted = true;
  {
    const std::lock_guard lock(comm.mutex);
    comm.pending -= static_cast<int>(comm.called.size());
    comm.called.clear();
  }
  while (comm.pending > 0) std::this_thread::yield();
  end_profile(comm);
  return kSuccess;
}
EXPORT int ncclGroupStart() {
  start_group();
  return kSuccess;
}
EXPORT int ncclGroupEnd() {
  return end_group();
}
EXPORT int ncclRedOpCreatePreMulSum(int* op, void* scalar, int type, int residence, void* handle) {
  if (residence != 1) return kInvalidArgument;
  Comm& comm = usable_comm(handle);
  double factor = 0;
  switch (type_of(type)) {
    case ddp::DataType::f16:
      factor = static_cast<float>(*static_cast<ddp::Float16*>(scalar));
      break;
    case ddp::DataType::bf16:
      factor = static_cast<float>(*static_cast<ddp::BFloat16*>(scalar));
      break;
    case ddp::DataType::f32:
      factor = *static_cast<float*>(scalar);
      break;
    case ddp::DataType::f64:
      factor = *static_cast<double*>(scalar);
      break;
    default:
      return kInvalidArgument;
  }
  *op = comm.user_ops.empty() ? kFirstUserOp : comm.user_ops.rbegin()->first + 1;
  comm.user_ops[*op] = factor;
  return kSuccess;
}
EXPORT int ncclRedOpDestroy(int op, void* handle) {
  return usable_comm(handle).user_ops.erase(op) == 1 ? kSuccess : kInvalidArgument;
}
EXPORT int ncclAllReduce(const void* send, void* receive, std::size_t count, int type, int op, void* handle,
                         void* stream) {
  const Reduction reduction(usable_comm(handle), type, op);
  void* const kernel = profile_collective(usable_comm(handle), "AllReduce", count, type, 0, stream);
  const std::size_t bytes = count * size_of_type(type);
  return add(handle, stream,
             {[=](Comm& comm) {
                profile_kernel(comm, kernel, [&] {
                  in_pieces(bytes, kSlot, [&](std::size_t first, std::size_t piece) {
                    reduction.fill(comm, static_cast<const std::byte*>(send) + first, piece);
                    comm.barrier();
                    reduction.reduce(comm, static_cast<std::byte*>(receive) + first, piece);
                    comm.barrier();
                  });
                });
              },
              fake_gpu::all_reduce});
}
EXPORT int ncclReduce(const void* send, void* receive, std::size_t count, int type, int op, int root, void* handle,
                      void* stream) {
  const Reduction reduction(usable_comm(handle), type, op);
  profile_collective(usable_comm(handle), "Reduce", count, type, root, stream);
  const std::size_t bytes = count * size_of_type(type);
  return add(handle, stream,
             {[=](Comm& comm) {
                in_pieces(bytes, kSlot, [&](std::size_t first, std::size_t piece) {
                  reduction.fill(comm, static_cast<const std::byte*>(send) + first, piece);
                  comm.barrier();
                  if (comm.rank == root) reduction.reduce(comm, static_cast<std::byte*>(receive) + first, piece);
                  comm.barrier();
                });
              },
              fake_gpu::reduce});
}
EXPORT int ncclReduceScatter(const void* send, void* receive, std::size_t count, int type, int op, void* handle,
                             void* stream) {
  const Reduction reduction(usable_comm(handle), type, op);
  profile_collective(usable_comm(handle), "ReduceScatter", count, type, 0, stream);
  const std::size_t bytes = count * size_of_type(type);
  return add(handle, stream,
             {[=](Comm& comm) {
                for (int part = 0; part < comm.size; ++part) {
                  const auto* from = static_cast<const std::byte*>(send) + static_cast<std::size_t>(part) * bytes;
                  in_pieces(bytes, kSlot, [&](std::size_t first, std::size_t piece) {
                    reduction.fill(comm, from + first, piece);
                    comm.barrier();
                    if (comm.rank == part) reduction.reduce(comm, static_cast<std::byte*>(receive) + first, piece);
                    comm.barrier();
                  });
                }
              },
              fake_gpu::reduce_scatter});
}
EXPORT int ncclBroadcast(const void* send, void* receive, std::size_t count, int type, int root, void* handle,
                         void* stream) {
  profile_collective(usable_comm(handle), "Broadcast", count, type, root, stream);
  const std::size_t bytes = count * size_of_type(type);
  return add(handle, stream,
             {[=](Comm& comm) {
                comm.require_use(comm.rank == root ? send : receive, bytes);
                if (comm.rank != root) return take(comm, root, receive, bytes);
                if (receive != send) std::memcpy(receive, send, bytes);
                for (int rank = 0; rank < comm.size; ++rank) {
                  if (rank != root) give(comm, rank, send, bytes);
                }
              },
              fake_gpu::broadcast});
}
EXPORT int ncclAllGather(const void* send, void* receive, std::size_t count, int type, void* handle, void* stream) {
  profile_collective(usable_comm(handle), "AllGather", count, type, 0, stream);
  const std::size_t bytes = count * size_of_type(type);
  return add(handle, stream,
             {[=](Comm& comm) {
                comm.require_use(send, bytes);
                comm.require_use(receive, bytes * static_cast<std::size_t>(comm.size));
                in_pieces(bytes, kSlot, [&](std::size_t first, std::size_t piece) {
                  std::memcpy(comm.slot(comm.rank), static_cast<const std::byte*>(send) + first, piece);
                  comm.barrier();
                  for (int rank = 0; rank < comm.size; ++rank) {
                    std::byte* to = static_cast<std::byte*>(receive) + static_cast<std::size_t>(rank) * bytes;
                    std::memcpy(to + first, comm.slot(rank), piece);
                  }
                  comm.barrier();
                });
              },
              fake_gpu::all_gather});
}
EXPORT int ncclSend(const void* send, std::size_t count, int type, int peer, void* handle, void* stream) {
  profile_transfer(usable_comm(handle), "Send", count, type, peer, stream);
  const std::size_t bytes = count * size_of_type(type);
  return add(handle, stream, {[=](Comm& comm) {
               comm.require_use(send, bytes);
               give(comm, peer, send, bytes);
             }});
}
EXPORT int ncclRecv(void* receive, std::size_t count, int type, int peer, void* handle, void* stream) {
  profile_transfer(usable_comm(handle), "Recv", count, type, peer, stream);
  const std::size_t bytes = count * size_of_type(type);
  return add(handle, stream, {[=](Comm& comm) {
               comm.require_use(receive, bytes);
               take(comm, peer, receive, bytes);
             }});
}
EXPORT int ncclMemAlloc(void** memory, std::size_t bytes) {
  crash_after_exit();
  if (context_error() != kCudaSuccess || capture_error() != kCudaSuccess) return kUnhandledCudaError;
  if (!fits(bytes)) return kUnhandledCudaError;
  *memory = allocate(bytes);
  return *memory == nullptr ? kUnhandledCudaError : kSuccess;
}
// Unmaps the memory at once, whatever still uses it.
EXPORT int ncclMemFree(void* memory) {
  crash_after_exit();
  hang_if_asked("ncclMemFree");
  if (capture_error() != kCudaSuccess) return kUnhandledCudaError;
  return release(memory) ? kSuccess : kInvalidArgument;
}
EXPORT int ncclCommRegister(void* handle, void* memory, std::size_t, void** registration) {
  Comm& comm = usable_comm(handle);
  if (!comm.is_ready()) return kInvalidUsage;
  *registration = memory;
  return kSuccess;
}
// The memory must not be in use, and no call may be in progress.
EXPORT int ncclCommDeregister(void* handle, void*) {
  Comm& comm = usable_comm(handle);
  return comm.is_ready() && comm.pending == 0 ? kSuccess : kInvalidUsage;
}
