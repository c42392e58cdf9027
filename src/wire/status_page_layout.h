// StatusPageLayout: what a worker's process groups are at, in memory that the launcher made and the worker writes. It
// stays readable when the worker is stopped, hangs or is dead. docs/development/protocol.md, section 6, describes it;
// its reader trusts nothing in it but its size.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ddp::wire {

inline constexpr std::uint32_t kPageMagic = 0x42504444;  // "DDPB"
inline constexpr std::uint32_t kPageVersion = 5;
inline constexpr std::size_t kPageGroups = 32;
inline constexpr std::size_t kPageCalls = 16;
inline constexpr std::size_t kPageTransfers = 8;
inline constexpr std::size_t kPageStacks = 32;
inline constexpr std::size_t kPageFrames = 62;
// The worker inherits the page as this descriptor: far from those that programs and shells take.
inline constexpr int kPageDescriptor = 197;
inline constexpr std::int32_t kNoRankLost = -1;
// How each number of the page is read and written: it stands for itself, and the reader copes with any order.
inline constexpr auto kRelaxed = std::memory_order_relaxed;

// What the worker is at, whatever its groups are at.
inline constexpr std::array<std::string_view, 10> kPhaseNames = {
    "starting",   "connected",  "rendezvous",   "communicator set-up", "training",
    "evaluation", "checkpoint", "data loading", "finishing",           "done"};
inline constexpr std::uint32_t kTraining = 4;
static_assert(kPhaseNames[kTraining] == "training");

// `changes` is odd while the rest but the numbers below it is written.
struct PageWorker {
  std::atomic<std::uint32_t> changes;
  std::uint32_t phase;                         // enum Phase of ddp/progress.h
  std::uint64_t since;                         // CLOCK_MONOTONIC, nanoseconds
  std::int32_t line;                           // of the program, in `file`; 0: unknown
  std::atomic<std::int32_t> blocked_thread;    // the last thread that was added to StatusPageLayout::blocked_threads
  std::atomic<std::uint64_t> steps;            // synchronised ones, and heartbeats
  std::atomic<std::uint64_t> more_time_until;  // CLOCK_MONOTONIC, nanoseconds: no stall before
  // Threads that have called operations of any group and have not ended, and those of them that wait for one now.
  std::atomic<std::uint32_t> calling_threads;
  std::atomic<std::uint32_t> waiting_threads;
  std::atomic<std::uint64_t>
      polled_at;  // CLOCK_MONOTONIC, nanoseconds: a thread asked last whether an operation is done
  std::atomic<std::uint64_t> handed_on;  // pieces of data, to ranks of the same node through shared memory
  std::array<char, 48> name;             // of the phase, where the program gave one; text is cut, and ends with 0
  std::array<char, 80> file;
};
static_assert(sizeof(PageWorker) == 192);

// One collective call. `sequence` is 0 while the rest is written, and is written last.
struct PageCall {
  std::atomic<std::uint64_t> sequence;  // from 1, in the order of the calls on the group
  std::uint64_t fingerprint;            // of all calls of the group up to this one: two ranks that agree have the same
  std::uint64_t called_at;              // CLOCK_MONOTONIC, nanoseconds
  std::uint64_t count;                  // elements
  std::int32_t peer;                    // the root; -1: none
  std::int32_t line;                    // of the call, in `file`
  std::uint8_t operation;               // enum Operation of runtime/call/call.h
  std::uint8_t type;                    // enum DataType
  std::uint8_t op;                      // enum ReduceOp::Kind
  std::array<std::uint8_t, 5> unused;
  std::array<char, 64> name;  // text is cut, and ends with 0
  std::array<char, 80> file;
};
static_assert(sizeof(PageCall) == 192);

// A send or a receive. `number` is 0 while the rest is written, and is written last.
struct PageTransfer {
  std::atomic<std::uint64_t> number;   // from 1, among those of its kind with its peer
  std::atomic<std::uint32_t> is_done;  // then the place may be used again
  std::atomic<std::uint32_t> waiters;  // threads that wait for it
  std::uint64_t called_at;             // CLOCK_MONOTONIC, nanoseconds
  std::uint64_t count;                 // elements
  std::int32_t peer;                   // rank of the group
  std::int32_t line;                   // of the call, in `file`
  std::uint8_t operation;              // enum Operation of runtime/call/call.h: send or recv
  std::uint8_t type;                   // enum DataType
  std::array<std::uint8_t, 6> unused;
  std::array<char, 80> file;
};
static_assert(sizeof(PageTransfer) == 128);

// Whether a place for a group is taken. What a group that failed leaves behind stays to be seen until another group
// needs the place.
inline constexpr std::uint32_t kPageFree = 0;
inline constexpr std::uint32_t kPageInUse = 1;
inline constexpr std::uint32_t kPageLeft = 2;

// One process group of the worker. Numbers only grow.
struct alignas(64) PageGroup {
  std::atomic<std::uint32_t> in_use;  // kPageFree, …
  std::int32_t rank;
  std::int32_t size;
  std::atomic<std::uint32_t> blocked;  // threads that wait for a collective of it without a time-out of the program's
  // The same on all ranks of the group, and another one for each group: of its members and its number among the groups
  // of these members. Names are for people.
  std::uint64_t identity;
  // 0: the worker writes what follows itself, as it happens. Else ddp_torch_reader does, from what a recorder in the
  // worker said: when that was last asked, CLOCK_MONOTONIC, nanoseconds.
  std::atomic<std::uint64_t> sampled_at;
  std::array<char, 48> name;
  // Collectives: `called` have been asked for, `started` have been begun by the backend, `finished` are done here.
  std::atomic<std::uint64_t> called;
  std::atomic<std::uint64_t> started;
  std::atomic<std::uint64_t> finished;
  // Sends and receives.
  std::atomic<std::uint64_t> transfers_called;
  std::atomic<std::uint64_t> transfers_finished;
  // Collectives, by number: put on the GPU's stream by the worker; begun and done by the GPU, whose stream writes these
  // itself. 0: it does not.
  std::atomic<std::uint64_t> gpu_queued;
  std::atomic<std::uint64_t> gpu_started;
  std::atomic<std::uint64_t> gpu_finished;
  std::array<std::uint64_t, 6> more;
  std::array<PageCall, kPageCalls> calls;              // call n lies at (n - 1) % kPageCalls
  std::array<PageTransfer, kPageTransfers> transfers;  // in no order; those that find no place are not shown
};
static_assert(sizeof(PageGroup) == 192 + kPageCalls * 192 + kPageTransfers * 128);

// Where one thread of the worker is.
struct PageStack {
  std::atomic<std::uint32_t> answers;  // the request to which the rest belongs; written last
  std::int32_t thread;                 // as gettid() says it
  std::uint32_t depth;                 // frames that follow, the innermost first
  std::uint32_t unused;
  std::array<std::uint64_t, kPageFrames> addresses;  // the first: what it executes; the others: where it returns to
};
static_assert(sizeof(PageStack) == 16 + kPageFrames * 8);

// The launcher clears `taken`, raises `request` and sends `signal` to the worker's threads, each of which takes the
// next place.
struct alignas(64) PageStacks {
  std::atomic<std::int32_t> signal;    // by the worker: its handler writes stacks here; 0: it has none
  std::atomic<std::uint32_t> request;  // by the launcher
  std::atomic<std::uint32_t> taken;    // places, of this request; may exceed their number
  // Not of stacks, but in the space that they leave. By the launcher: 1: the program is to save and to leave.
  std::atomic<std::uint32_t> stop_request;
  // By the worker: steps that are done, and how many there are; 0: not known.
  std::atomic<std::uint64_t> progress_done;
  std::atomic<std::uint64_t> progress_total;
  std::array<std::uint32_t, 8> unused;
  std::array<PageStack, kPageStacks> stacks;
};
static_assert(sizeof(PageStacks) == 64 + kPageStacks * sizeof(PageStack));

struct alignas(64) StatusPageLayout {
  // By the launcher, before the worker starts.
  std::uint32_t magic;
  std::uint32_t version;
  std::uint32_t bytes;
  std::int32_t rank;
  std::int32_t local_rank;
  std::int32_t attempt;
  // By the launcher: the rank whose failure ends the job.
  std::atomic<std::int32_t> lost_rank;
  // By the worker: the process that writes all below; 0: none has yet.
  std::atomic<std::int32_t> writer;
  std::atomic<std::uint32_t> groups_not_shown;
  std::atomic<std::uint32_t> places;  // of `groups`, that have been used so far: those after them are free
  // By the worker: how often it has called init(), and, while it waits there for other ranks to come, the size of the
  // world that it waits for; else 0.
  std::atomic<std::uint32_t> worlds_entered;
  std::atomic<std::uint32_t> awaited_world;
  // By the worker: steps and operations that nothing else on the page shows.
  std::atomic<std::uint64_t> other_progress;
  // By the worker: threads of the runtime's own that run the program's continuations; threads that wait for an
  // operation on the page, without a time-out of the program's.
  std::atomic<std::uint32_t> continuations;
  std::atomic<std::uint32_t> blocked_threads;
  PageWorker worker;
  std::array<PageGroup, kPageGroups> groups;
  PageStacks stacks;
};
static_assert(sizeof(StatusPageLayout) == 256 + kPageGroups * sizeof(PageGroup) + sizeof(PageStacks));

}  // namespace ddp::wire
