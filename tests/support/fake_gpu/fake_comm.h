// Defines a communicator of the fake NCCL. Its ranks are threads or processes that meet in shared memory.
#pragma once

#include <ddp/data_type.h>
#include <ddp/reduce_op.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/fake_gpu/fake_gpu.h"

namespace fake_gpu {

inline constexpr int kSuccess = 0;
inline constexpr int kUnhandledCudaError = 1;
inline constexpr int kSystemError = 2;
inline constexpr int kInvalidArgument = 4;
inline constexpr int kInvalidUsage = 5;
inline constexpr int kInProgress = 7;

inline constexpr std::size_t kMostRanks = 16;
inline constexpr std::size_t kSlot = std::size_t{256} << 10;
inline constexpr std::size_t kPairSlot = std::size_t{64} << 10;
inline constexpr int kFirstUserOp = 100;

// Collectives of one function use the same connections. The first of them connects the ranks.
enum Function { all_reduce, reduce, reduce_scatter, broadcast, all_gather, kFunctions, transfer = kFunctions };

// All ranks of a communicator map this memory.
struct Meeting {
  struct Pair {
    std::atomic<std::uint32_t> filled;
    std::atomic<std::uint32_t> emptied;
  };
  // Each rank writes its host and its GPU before it joins.
  struct Place {
    std::uint64_t host;
    std::int32_t device;
  };
  Place places[kMostRanks];
  std::atomic<std::uint32_t> joined;
  std::atomic<std::uint32_t> connected[kFunctions];  // number of ranks that called the function for the first time
  std::atomic<std::uint32_t> arrived;
  std::atomic<std::uint32_t> generation;
  Pair pairs[kMostRanks][kMostRanks];
  alignas(64) std::byte slots[kMostRanks][kSlot];
  alignas(64) std::byte pair_slots[kMostRanks][kMostRanks][kPairSlot];
};

struct Aborted {};
struct Comm;

// Describes one rank's part of an operation.
struct Operation {
  std::function<void(Comm& comm)> action;
  Function function = transfer;
};

struct Comm {
  int rank = 0;
  int size = 1;
  int device = 0;
  bool is_blocking = false;
  Meeting* meeting = nullptr;
  std::atomic<bool> aborted = false;
  std::atomic<bool> connected = false;
  std::atomic<bool> splitting = false;
  std::atomic<int> failure = 0;
  std::atomic<bool> finalized = false;
  std::atomic<bool> connecting = false;
  std::atomic<int> checks_left = 0;  // number of state checks until the last call counts as "on the stream"
  std::atomic<int> pending = 0;      // number of operations in progress
  std::map<int, double> user_ops;
  std::set<Function> known;
  std::mutex mutex;  // protects the operations that are not on their stream yet
  std::vector<std::pair<void*, std::vector<Operation>>> called;

  // Returns whether another call may be made.
  bool is_ready() const { return connected && checks_left == 0 && !connecting && !aborted && !splitting; }

  template <typename Condition>
  void until(Condition&& condition) const {
    for (int turn = 0; !condition(); ++turn) {
      if (aborted) throw Aborted();
      if (turn < 100) {
        std::this_thread::yield();
      } else {
        // A thread that is left behind must not use the processor.
        std::this_thread::sleep_for(std::chrono::microseconds(turn < 10'000 ? 20 : 5000));
      }
    }
  }
  void barrier() const {
    const std::uint32_t generation = meeting->generation;
    if (++meeting->arrived == static_cast<std::uint32_t>(size)) {
      meeting->arrived = 0;
      ++meeting->generation;
    } else {
      until([&] { return meeting->generation != generation; });
    }
  }
  std::byte* slot(int of) const { return meeting->slots[of]; }
  // Ends the operation if the GPU may not use the memory, as an illegal address ends a kernel.
  void require_use(const void* memory, std::size_t bytes) const {
    if (!may_use(device, memory, bytes)) throw Aborted();
  }
};

int version();

// Communicators are never freed, because threads that are left behind may use them.
Comm* make_comm();
inline Comm& comm_of(void* handle) {
  return *static_cast<Comm*>(handle);
}

// Makes a meeting place, which is removed when its process ends.
std::string make_place();
// Returns when all ranks have joined. Fails if two of them have the same GPU.
void join(Comm& comm, const std::string& place);

std::size_t size_of_type(int type);
ddp::DataType type_of(int type);

// Reduces the slots of all ranks.
struct Reduction {
  int type = 0;
  ddp::ReduceOp op;
  double own_factor = 1;

  Reduction(const Comm& comm, int type_, int op_number);
  // Copies this rank's elements to its slot, multiplied by its factor.
  void fill(const Comm& comm, const void* from, std::size_t bytes) const;
  void reduce(const Comm& comm, void* to, std::size_t bytes) const;
};

// Adds the operation to the stream, or to the thread's open group. As with NCCL, the operation of a non-blocking
// communicator is on its stream only when its state is success again.
int add(void* handle, void* stream, Operation operation);
void start_group();
int end_group();
// The caller calls it when the communicator's state is success.
void put_on_streams(Comm& comm);

}  // namespace fake_gpu
