// Shows the calls of NCCL's communicators on the worker's status page. docs/development/decisions/
// 0074-nccl-says-what-is-launched.md
#pragma once

#include <sched.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "wire/call_names.h"
#include "wire/status_page_layout.h"

namespace ddp::nccl_profiler {

// A worker sends to and receives from few ranks in one communicator, unless it exchanges data with all of them.
inline constexpr std::size_t kPeers = wire::kPageTransfers / 2;

// Represents the kernel of a collective.
struct Kernel {
  std::uint64_t number = 0;   // of the collective
  std::uint8_t channels = 0;  // on which it runs
  std::uint8_t ended = 0;     // channels on which it has ended
};

// Represents a communicator of this process. NCCL may report an event of one that is gone, so entries are never freed:
// a new communicator gets the entry of the one that was left first. `busy` guards the other members.
struct Communicator {
  std::atomic_flag busy = ATOMIC_FLAG_INIT;
  wire::PageGroup* place = nullptr;  // null if it has never been shown
  std::uint64_t id = 0;              // 0 if it is not shown
  bool is_in_use = false;
  std::atomic<bool> is_named = false;  // show() has been called
  std::uint64_t left_at = 0;           // how many had been left when this one was left last; 0 if it never was
  int version = 0;                     // of NCCL's interface
  // NCCL's number of the last launch of each function, counted from 1.
  std::array<std::uint64_t, wire::kOperationNames.size() + 1> launched = {};
  bool shows_kernels = false;
  std::array<Kernel, 64> kernels = {};  // by the number of the collective; NCCL follows so many of a channel
};

// Numbers of wire::kOperationNames.
inline constexpr std::uint8_t kAllReduce = wire::number_of(wire::kOperationNames, "all_reduce");
inline constexpr std::uint8_t kReduce = wire::number_of(wire::kOperationNames, "reduce");
inline constexpr std::uint8_t kBroadcast = wire::number_of(wire::kOperationNames, "broadcast");
inline constexpr std::uint8_t kGather = wire::number_of(wire::kOperationNames, "gather");
inline constexpr std::uint8_t kScatter = wire::number_of(wire::kOperationNames, "scatter");
inline constexpr std::uint8_t kReduceScatter = wire::number_of(wire::kOperationNames, "reduce_scatter");
inline constexpr std::uint8_t kSend = wire::number_of(wire::kOperationNames, "send");
inline constexpr std::uint8_t kRecv = wire::number_of(wire::kOperationNames, "recv");
static_assert(kRecv < wire::kOperationNames.size());

struct Call {
  std::uint8_t operation = 0;  // a number of wire::kOperationNames, or their count
  std::uint8_t type = 0;       // a number of wire::kTypeNames, or their count
  std::uint64_t count = 0;     // elements
  std::uint64_t bytes = 0;     // 0 if the type is not known
  int peer = -1;               // the root of a collective, or the other side of a transfer; -1 if there is none
};

// Returns whether this process shows a new communicator: ddplaunch has started it, it does not use the runtime, and
// PyTorch's recorder does not show it. The first call opens the page. Any thread may call it.
bool is_shown();

// Returns an entry for a new communicator of so many ranks (0 if that is not known), and never null. Takes a lock.
Communicator* take(int version, int ranks, bool shows_kernels);
// Shows the communicator. Only the first call counts. Takes a lock.
void show(Communicator& communicator, std::uint64_t id, const char* name, int ranks, int rank);
void leave(Communicator& communicator);

// These are for any thread. They allocate nothing and wait for no other communicator.
// Returns the number of the collective, or 0 if it is not shown.
std::uint64_t add_collective(Communicator& communicator, const Call& call);
void add_transfer(Communicator& communicator, const Call& call);
// Returns whether a CUDA graph repeats this call: NCCL does not count it, so it has the number of another one.
bool is_repeated(Communicator& communicator, std::uint8_t operation, std::uint64_t sequence);
// A CUDA graph repeats calls of this communicator, so they are not all counted.
void miss_calls(Communicator& communicator);

// Holds a communicator for less than a microsecond. Programs call one communicator from one thread at a time, so it is
// nearly always free.
class Held {
 public:
  explicit Held(Communicator& communicator) : communicator_(communicator) {
    while (communicator_.busy.test_and_set(std::memory_order_acquire)) ::sched_yield();
  }
  ~Held() { communicator_.busy.clear(std::memory_order_release); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

 private:
  Communicator& communicator_;
};

// All communicators of this process that can be shown.
std::array<Communicator, wire::kPageGroups>& communicators();

}  // namespace ddp::nccl_profiler
