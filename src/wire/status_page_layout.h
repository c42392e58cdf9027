// StatusPageLayout describes a worker's process groups in shared memory, which the launcher creates and the worker
// writes. The memory stays readable when the worker is stopped, hangs or is dead. docs/development/protocol.md, section
// 6, describes it. The reader trusts nothing in it except its size.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ddp::wire {

inline constexpr std::uint32_t kPageMagic = 0x50504444;  // "DDPP"
inline constexpr std::uint32_t kPageVersion = 6;
inline constexpr std::size_t kPageGroups = 32;
inline constexpr std::size_t kPageCalls = 16;
inline constexpr std::size_t kPageTransfers = 8;
inline constexpr std::size_t kPageStacks = 32;
inline constexpr std::size_t kPageFrames = 62;
// The worker inherits the page as this descriptor, which is far from those that programs and shells use.
inline constexpr int kPageDescriptor = 197;
inline constexpr std::int32_t kNoRankLost = -1;
// All numbers of the page are read and written with this order. Each of them is independent, and the reader accepts any
// order.
inline constexpr auto kRelaxed = std::memory_order_relaxed;

// These are the phases of a worker, independent of its groups.
inline constexpr std::array<std::string_view, 10> kPhaseNames = {
    "starting",   "connected",  "rendezvous",   "communicator set-up", "training",
    "evaluation", "checkpoint", "data loading", "finishing",           "done"};
inline constexpr std::uint32_t kTraining = 4;
static_assert(kPhaseNames[kTraining] == "training");

// `changes` is odd while the other members are written, except for the numbers below it.
struct PageWorker {
  std::atomic<std::uint32_t> changes;
  std::uint32_t phase;                         // enum Phase of ddp/progress.h
  std::uint64_t since;                         // CLOCK_MONOTONIC, nanoseconds
  std::int32_t line;                           // line of the program in `file`; 0 if unknown
  std::atomic<std::int32_t> blocked_thread;    // the last thread that was counted in StatusPageLayout::blocked_threads
  std::atomic<std::uint64_t> steps;            // synchronised steps and heartbeats
  std::atomic<std::uint64_t> more_time_until;  // CLOCK_MONOTONIC, nanoseconds; no stall before this
  // The first number counts the threads that have called operations of any group and have not ended. The second counts
  // those of them that wait for an operation now.
  std::atomic<std::uint32_t> calling_threads;
  std::atomic<std::uint32_t> waiting_threads;
  std::atomic<std::uint64_t> polled_at;  // CLOCK_MONOTONIC, nanoseconds, when a thread last tested an operation
  std::atomic<std::uint64_t> handed_on;  // pieces of data handed to ranks of the same node through shared memory
  std::array<char, 48> name;             // name of the phase if the program gave one; text is truncated and ends with 0
  std::array<char, 80> file;
};
static_assert(sizeof(PageWorker) == 192);

// Describes one collective call. `sequence` is 0 while the other members are written, and is written last.
struct PageCall {
  std::atomic<std::uint64_t> sequence;  // counts from 1 in the order of the calls on the group
  std::uint64_t fingerprint;            // hash of all calls so far; equal on ranks that made the same calls
  std::uint64_t called_at;              // CLOCK_MONOTONIC, nanoseconds
  std::uint64_t count;                  // elements
  std::int32_t peer;                    // the root; -1 if none
  std::int32_t line;                    // line of the call in `file`
  std::uint8_t operation;               // enum Operation of runtime/call/call.h
  std::uint8_t type;                    // enum DataType
  std::uint8_t op;                      // enum ReduceOp::Kind
  std::array<std::uint8_t, 5> unused;
  std::array<char, 64> name;  // text is truncated and ends with 0
  std::array<char, 80> file;
};
static_assert(sizeof(PageCall) == 192);

// Describes a send or a receive. `number` is 0 while the other members are written, and is written last.
struct PageTransfer {
  std::atomic<std::uint64_t> number;   // counts from 1 among those of its kind with its peer
  std::atomic<std::uint32_t> is_done;  // if set, the entry may be reused
  std::atomic<std::uint32_t> waiters;  // threads that wait for it
  std::uint64_t called_at;             // CLOCK_MONOTONIC, nanoseconds
  std::uint64_t count;                 // elements
  std::int32_t peer;                   // rank of the group
  std::int32_t line;                   // line of the call in `file`
  std::uint8_t operation;              // enum Operation of runtime/call/call.h: send or recv
  std::uint8_t type;                   // enum DataType
  std::array<std::uint8_t, 6> unused;
  std::array<char, 80> file;
};
static_assert(sizeof(PageTransfer) == 128);

// These are the states of an entry for a group. The data of a failed group stay visible until another group needs the
// entry.
inline constexpr std::uint32_t kPageFree = 0;
inline constexpr std::uint32_t kPageInUse = 1;
inline constexpr std::uint32_t kPageLeft = 2;

inline constexpr std::uint64_t kSampledAtEnd = ~std::uint64_t{0};

// `none` means that the entry counts more than launches. Calls that CUDA graphs repeat are not counted, so once a graph
// has captured a call, the counts of the group show nothing (`incomplete`).
enum class Launches : std::uint64_t { none, all, incomplete };
inline constexpr unsigned kPeerShift = 48;

// Describes one process group of the worker. Its numbers only grow.
struct alignas(64) PageGroup {
  std::atomic<std::uint32_t> in_use;  // kPageFree, kPageInUse or kPageLeft
  std::int32_t rank;
  std::int32_t size;
  std::atomic<std::uint32_t> blocked;  // threads that wait for a collective of it without a time-out of the program
  // The identity is the same on all ranks of a group, and differs between groups. It is derived from the members and
  // the group's number among the groups of these members. Names are only for users.
  std::uint64_t identity;
  // If 0, the worker itself writes the members below as events happen. Otherwise ddp_torch_reader writes them from a
  // recorder in the worker. The value is then the time of the last query, CLOCK_MONOTONIC, nanoseconds. It is
  // kSampledAtEnd if the worker has written them at its end, and calls nothing more.
  std::atomic<std::uint64_t> sampled_at;
  std::array<char, 48> name;
  // These count collectives: `called` were requested, `started` were begun by the backend, `finished` are done on this
  // rank.
  std::atomic<std::uint64_t> called;
  std::atomic<std::uint64_t> started;
  std::atomic<std::uint64_t> finished;
  // These count sends and receives.
  std::atomic<std::uint64_t> transfers_called;
  std::atomic<std::uint64_t> transfers_finished;
  // These are numbers of collectives. The worker put `gpu_queued` on the GPU's stream. The GPU has begun `gpu_started`
  // and finished `gpu_finished`; its stream writes them itself. They are 0 if it does not.
  std::atomic<std::uint64_t> gpu_queued;
  std::atomic<std::uint64_t> gpu_started;
  std::atomic<std::uint64_t> gpu_finished;
  // If the reader follows each call of the group, it writes the time until which it has done so, CLOCK_MONOTONIC,
  // nanoseconds. Otherwise it is 0, and the counters show moments only.
  std::atomic<std::uint64_t> followed_until;
  // A profiler plug-in of NCCL sees which collectives the worker calls, and not when they are done. It writes a member
  // of enum Launches, and `finished` stays 0. The next two are numbers of collectives: the newest one that waits for
  // all members, and the newest one that waits for one other member, whose rank + 1 is in the upper 16 bits.
  std::atomic<std::uint64_t> launches;
  std::atomic<std::uint64_t> waits_for_all;
  std::atomic<std::uint64_t> waits_for_one;
  // If it is not 0, the plug-in also follows kernels, from this collective on: it counts `gpu_queued`, `gpu_started`
  // and `gpu_finished`.
  std::atomic<std::uint64_t> kernels_from;
  std::array<std::uint64_t, 1> more;
  std::array<PageCall, kPageCalls> calls;              // call n lies at (n - 1) % kPageCalls
  std::array<PageTransfer, kPageTransfers> transfers;  // in no order; those without a free entry are not shown
};
static_assert(sizeof(PageGroup) == 192 + kPageCalls * 192 + kPageTransfers * 128);

// Holds the stack of one thread of the worker.
struct PageStack {
  std::atomic<std::uint32_t> answers;  // the request that the other members answer; written last
  std::int32_t thread;                 // the thread's id, as returned by gettid()
  std::uint32_t depth;                 // number of frames that follow, innermost first
  std::uint32_t unused;
  std::array<std::uint64_t, kPageFrames> addresses;  // the current instruction, then return addresses
};
static_assert(sizeof(PageStack) == 16 + kPageFrames * 8);

// The launcher clears `taken`, increments `request` and sends `signal` to the worker's threads. Each of them takes the
// next entry.
struct alignas(64) PageStacks {
  std::atomic<std::int32_t> signal;    // written by the worker, whose handler writes stacks here; 0 if none
  std::atomic<std::uint32_t> request;  // written by the launcher
  std::atomic<std::uint32_t> taken;    // entries used for this request; may exceed their number
  std::uint32_t unused;
  std::array<PageStack, kPageStacks> stacks;
};
static_assert(sizeof(PageStacks) == 64 + kPageStacks * sizeof(PageStack));

struct alignas(64) StatusPageLayout {
  // The launcher writes these before the worker starts.
  std::uint32_t magic;
  std::uint32_t version;
  std::uint32_t bytes;
  std::int32_t rank;
  std::int32_t local_rank;
  std::int32_t attempt;
  // The launcher writes the rank whose failure ends the job.
  std::atomic<std::int32_t> lost_rank;
  // The worker writes the process that writes all members below; 0 if none has yet.
  std::atomic<std::int32_t> writer;
  std::atomic<std::uint32_t> groups_not_shown;
  std::atomic<std::uint32_t> places;  // entries of `groups` used so far; those after them are free
  // The worker writes how often it has called init(). While it waits there for other ranks, it also writes the world
  // size that it waits for; else 0.
  std::atomic<std::uint32_t> worlds_entered;
  std::atomic<std::uint32_t> awaited_world;
  // The worker counts steps and operations here that nothing else on the page shows.
  std::atomic<std::uint64_t> other_progress;
  // The worker counts two kinds of threads. `continuations` are the runtime's threads that run the program's
  // continuations. `blocked_threads` wait for an operation on the page without a time-out of the program.
  std::atomic<std::uint32_t> continuations;
  std::atomic<std::uint32_t> blocked_threads;
  // The launcher writes 1 to ask the program to save and to exit.
  std::atomic<std::uint32_t> stop_request;
  // The worker writes the UUID of its GPU, or of its MIG slice, and then sets `has_gpu_uuid` to 1.
  std::atomic<std::uint32_t> has_gpu_uuid;
  std::array<std::uint8_t, 16> gpu_uuid;
  // The worker writes the steps done and the total number of steps; 0 means unknown.
  std::atomic<std::uint64_t> progress_done;
  std::atomic<std::uint64_t> progress_total;
  // What observes a program of PyTorch counts the steps of its optimizers here, for the views. It is 0 if it cannot.
  std::atomic<std::uint64_t> optimizer_steps;
  // ddp_torch_reader writes 1 if it shows the collectives that PyTorch puts on GPUs. Then groups that count launches
  // show the same collectives a second time.
  std::atomic<std::uint64_t> records_launches;
  std::array<std::uint64_t, 1> more;
  PageWorker worker;
  std::array<PageGroup, kPageGroups> groups;
  PageStacks stacks;
};
static_assert(sizeof(StatusPageLayout) == 320 + kPageGroups * sizeof(PageGroup) + sizeof(PageStacks));

}  // namespace ddp::wire
