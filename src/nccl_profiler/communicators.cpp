#include "nccl_profiler/communicators.h"

#include <fcntl.h>
#include <limits.h>  // NOLINT(modernize-deprecated-headers): PATH_MAX is POSIX
#include <pthread.h>
#include <string.h>  // NOLINT(modernize-deprecated-headers): strchrnul() is of GNU
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>  // NOLINT(modernize-deprecated-headers): clock_gettime is POSIX
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/hash.h"
#include "wire/page_phase.h"
#include "wire/record_ring_layout.h"
#include "wire/record_writer.h"
#include "wire/worker_env.h"

namespace ddp::nccl_profiler {
namespace {

using wire::kRelaxed;

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_once_t opened = PTHREAD_ONCE_INIT;
std::atomic<wire::StatusPageLayout*> shown_page{nullptr};
std::atomic<wire::RecordRingLayout*> shown_ring{nullptr};
std::array<Communicator, wire::kPageGroups> entries;
Communicator hidden;  // stands for those that find no entry
std::uint64_t left = 0;
constexpr int kMostPeer = 0xfffe;
constexpr int kAlone = 1;        // NCCL reports no call of a communicator of one rank
constexpr int kShowsGraphs = 3;  // earlier versions do not show which calls a CUDA graph repeats

// Returns the shared memory behind the descriptor that a variable names, or null if it is not as expected.
template <typename Layout>
Layout* map(const char* variable, std::uint32_t magic, std::uint32_t version) {
  const char* const text = ::getenv(variable);  // NOLINT(concurrency-mt-unsafe)
  if (text == nullptr || *text == '\0') return nullptr;
  char* end = nullptr;
  const long descriptor = ::strtol(text, &end, 10);
  struct stat status {};
  if (*end != '\0' || descriptor < 0 || descriptor > 1'000'000) return nullptr;
  if (::fstat(static_cast<int>(descriptor), &status) != 0) return nullptr;
  if (status.st_size != static_cast<off_t>(sizeof(Layout))) return nullptr;
  void* const memory =
      ::mmap(nullptr, sizeof(Layout), PROT_READ | PROT_WRITE, MAP_SHARED, static_cast<int>(descriptor), 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* const layout = static_cast<Layout*>(memory);
  std::int32_t writer = 0;
  const std::int32_t own = ::getpid();
  if (layout->magic == magic && layout->version == version &&
      (layout->writer.compare_exchange_strong(writer, own) || writer == own)) {
    return layout;
  }
  ::munmap(memory, sizeof(Layout));
  return nullptr;
}

void open() {
  shown_page.store(map<wire::StatusPageLayout>(wire::env::kStatusPage, wire::kPageMagic, wire::kPageVersion));
  if (shown_page.load() == nullptr) return;
  shown_ring.store(map<wire::RecordRingLayout>(wire::env::kRecordRing, wire::kRingMagic, wire::kRingVersion));
  // A forked child has the memory, too, and shows nothing.
  ::pthread_atfork(nullptr, nullptr, [] { shown_page.store(nullptr); });
}

// Returns the page, or null if nothing is shown. If the runtime is used, it shows its groups itself.
wire::StatusPageLayout* page() {
  wire::StatusPageLayout* const of = shown_page.load(std::memory_order_acquire);
  return of == nullptr || of->worlds_entered.load(kRelaxed) > 0 ? nullptr : of;
}

// Returns whether PyTorch's recorder shows this process's collectives of NCCL. Code in the worker's Python writes that
// to a file before it creates a communicator, as a rule (bindings/python/hook/sitecustomize.py).
bool is_recorded() {
  const char* const prefix = ::getenv(wire::env::kTorchFile);  // NOLINT(concurrency-mt-unsafe)
  char path[PATH_MAX];
  if (prefix == nullptr || *prefix == '\0') return false;
  if (::snprintf(path, sizeof path, "%s.groups", prefix) >= static_cast<int>(sizeof path)) return false;
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  char text[1024];
  const ssize_t size = ::read(file, text, sizeof text - 1);
  ::close(file);
  text[size > 0 ? size : 0] = '\0';
  const char* const recorders = ::strstr(text, "\"recorders\"");
  const char* const name = recorders == nullptr ? nullptr : ::strstr(recorders, "\"nccl\"");
  return name != nullptr && name < ::strchrnul(recorders, ']');
}

class Lock {
 public:
  Lock() { ::pthread_mutex_lock(&mutex); }
  ~Lock() { ::pthread_mutex_unlock(&mutex); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
};

std::uint64_t now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

// Another process may take places, too: it reads PyTorch's recorder.
wire::PageGroup* take_place(wire::StatusPageLayout& of) {
  std::uint32_t used = of.places.load(kRelaxed);
  while (used < wire::kPageGroups) {
    if (of.places.compare_exchange_weak(used, used + 1)) return &of.groups[used];
  }
  return nullptr;
}

void clear(wire::PageGroup& place) {
  place.in_use.store(wire::kPageFree, std::memory_order_release);
  for (auto* number : {&place.called, &place.started, &place.finished, &place.transfers_called,
                       &place.transfers_finished, &place.gpu_queued, &place.gpu_started, &place.gpu_finished,
                       &place.waits_for_all, &place.waits_for_one, &place.kernels_from}) {
    number->store(0, kRelaxed);
  }
  for (wire::PageCall& call : place.calls) call.sequence.store(0, kRelaxed);
  for (wire::PageTransfer& transfer : place.transfers) {
    transfer.number.store(0, kRelaxed);
    transfer.peer = -1;
    transfer.operation = 0;
    transfer.called_at = 0;
  }
}

bool is_world(int ranks) {
  const char* const size = ::getenv(wire::env::kWorldSize);  // NOLINT(concurrency-mt-unsafe)
  return size != nullptr && ::atoi(size) == ranks;
}

// If NCCL knows no name, the launcher gives one: it knows which ranks are in the communicator.
void write_name(wire::PageGroup& place, const char* name, int ranks) {
  const bool is_named = name != nullptr && *name != '\0';
  ::snprintf(place.name.data(), place.name.size(), "%s", is_named ? name : is_world(ranks) ? "world" : "");
}

void set_launches(wire::PageGroup& place, wire::Launches launches) {
  place.launches.store(static_cast<std::uint64_t>(launches), kRelaxed);
}

// With several members in one process, it is not known whose call is seen.
bool has_twin(const Communicator& communicator, std::uint64_t id) {
  for (Communicator& one : entries) {
    if (&one == &communicator) continue;
    const Held held(one);
    if (one.id != id || !one.is_in_use) continue;
    set_launches(*one.place, wire::Launches::incomplete);
    return true;
  }
  return false;
}

bool has_place(Communicator& communicator, wire::StatusPageLayout& of) {
  if (communicator.place != nullptr) return true;
  communicator.place = take_place(of);
  if (communicator.place != nullptr) clear(*communicator.place);
  return communicator.place != nullptr;
}

// Two calls fit together if their fingerprints are equal. An operation that only copies may have another type with the
// same number of bytes.
std::uint64_t fingerprint_of(const Call& call) {
  const bool adds = call.operation == kAllReduce || call.operation == kReduce || call.operation == kReduceScatter;
  std::uint64_t hash = base::mix(0xcbf29ce484222325ULL, call.operation);
  hash = base::mix(hash, adds || call.bytes == 0 ? call.count : call.bytes);
  hash = base::mix(hash, adds || call.bytes == 0 ? call.type : ~0ULL);
  hash = base::mix(hash, static_cast<std::uint64_t>(call.peer));
  return hash == 0 ? 1 : hash;
}

// Until version 3, NCCL does not say how many members there are.
void learn_size(const Communicator& communicator, int peer) {
  constexpr int kSaysSize = 4;
  wire::PageGroup& place = *communicator.place;
  if (communicator.version < kSaysSize && peer >= place.size && peer < kMostPeer) place.size = peer + 1;
}

void record(const wire::StatusPageLayout& of, const wire::PageGroup& place, wire::RecordKind kind, const Call& call,
            std::uint64_t number, std::uint64_t at) {
  wire::RecordRingLayout* const ring = shown_ring.load(std::memory_order_acquire);
  if (ring == nullptr || of.records_launches.load(kRelaxed) != 0) return;
  const wire::RecordMode mode = ring->mode.load(kRelaxed);
  if (mode == wire::RecordMode::off || (mode == wire::RecordMode::steps && !wire::is_sampled(number))) return;
  wire::add_record(*ring, {.kind = kind,
                           .begin = at,
                           .end = at,
                           .bytes = call.bytes,
                           .number = number,
                           .group = static_cast<std::uint8_t>(&place - of.groups.data()),
                           .operation = call.operation});
}

}  // namespace

bool is_shown() {
  ::pthread_once(&opened, open);
  return page() != nullptr && !is_recorded();
}

Communicator* take(int version, int ranks, bool shows_kernels) {
  if (ranks == kAlone) return &hidden;
  const Lock lock;
  Communicator* taken = nullptr;
  for (Communicator& one : entries) {
    if (one.is_in_use) continue;
    // Those that were left stay visible for as long as possible.
    if (taken == nullptr || one.left_at < taken->left_at) taken = &one;
  }
  if (taken == nullptr) {
    if (wire::StatusPageLayout* const of = page(); of != nullptr) of->groups_not_shown.fetch_add(1, kRelaxed);
    return &hidden;
  }
  const Held held(*taken);
  if (taken->place != nullptr) clear(*taken->place);
  taken->id = 0;
  taken->is_in_use = true;
  taken->is_named.store(false, kRelaxed);
  taken->version = version;
  taken->launched = {};
  taken->shows_kernels = shows_kernels;
  taken->kernels = {};
  return taken;
}

void show(Communicator& communicator, std::uint64_t id, const char* name, int ranks, int rank) {
  wire::StatusPageLayout* const of = page();
  if (of == nullptr || &communicator == &hidden || rank < 0 || rank >= kMostPeer) return;
  const Lock lock;
  const Held held(communicator);
  if (communicator.is_named.exchange(true, kRelaxed)) return;
  if (has_twin(communicator, id) || !has_place(communicator, *of)) {
    of->groups_not_shown.fetch_add(1, kRelaxed);
    return;
  }
  communicator.id = id;
  wire::PageGroup& place = *communicator.place;
  place.rank = rank;
  place.size = ranks > 0 ? ranks : rank + 1;
  place.identity = id;
  place.sampled_at.store(0, kRelaxed);
  set_launches(place, communicator.version >= kShowsGraphs ? wire::Launches::all : wire::Launches::incomplete);
  write_name(place, name, ranks);
  place.in_use.store(wire::kPageInUse, std::memory_order_release);
}

void leave(Communicator& communicator) {
  if (page() == nullptr) return;
  const Lock lock;
  const Held held(communicator);
  if (!communicator.is_in_use) return;
  communicator.is_in_use = false;
  communicator.left_at = ++left;
  if (communicator.id != 0) communicator.place->in_use.store(wire::kPageLeft, std::memory_order_release);
}

std::uint64_t add_collective(Communicator& communicator, const Call& call) {
  wire::StatusPageLayout* const of = page();
  if (of == nullptr) return 0;
  const Held held(communicator);
  if (communicator.id == 0) return 0;
  wire::PageGroup& place = *communicator.place;
  learn_size(communicator, call.peer);
  const std::uint64_t at = now();
  const std::uint64_t number = place.called.load(kRelaxed) + 1;
  wire::PageCall& to = place.calls[(number - 1) % wire::kPageCalls];
  to.sequence.store(0, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_release);
  to.fingerprint = fingerprint_of(call);
  to.called_at = at;
  to.count = call.count;
  to.peer = call.peer;
  to.line = 0;
  to.operation = call.operation;
  to.type = call.type;
  to.op = static_cast<std::uint8_t>(wire::kReductionNames.size());  // NCCL does not say it
  to.name[0] = '\0';
  to.file[0] = '\0';
  to.sequence.store(number, std::memory_order_release);
  // The root of a broadcast waits for no rank, and neither does a rank that only gives its part to the root.
  const bool is_from_root = call.operation == kBroadcast || call.operation == kScatter;
  const bool is_to_root = call.operation == kReduce || call.operation == kGather;
  const bool is_root = call.peer == place.rank;
  if (is_to_root ? is_root : !is_from_root) place.waits_for_all.store(number, std::memory_order_release);
  if (is_from_root && !is_root && call.peer >= 0 && call.peer < kMostPeer) {
    const auto root = static_cast<std::uint64_t>(call.peer) + 1;
    place.waits_for_one.store(root << wire::kPeerShift | number, std::memory_order_release);
  }
  place.called.store(number, std::memory_order_release);
  record(*of, place, wire::RecordKind::collective, call, number, at);
  wire::begin_training(*of, at);
  return number;
}

// There is one entry for each direction and peer, which holds the number of the newest transfer.
void add_transfer(Communicator& communicator, const Call& call) {
  wire::StatusPageLayout* const of = page();
  if (of == nullptr) return;
  const Held held(communicator);
  if (communicator.id == 0) return;
  wire::PageGroup& place = *communicator.place;
  learn_size(communicator, call.peer);
  const std::uint64_t at = now();
  place.transfers_called.fetch_add(1, std::memory_order_acq_rel);
  const std::size_t first = call.operation == kSend ? 0 : kPeers;
  for (std::size_t i = first; i < first + kPeers; ++i) {
    wire::PageTransfer& to = place.transfers[i];
    const std::uint64_t before = to.number.load(kRelaxed);
    if (before != 0 && to.peer != call.peer) continue;
    to.number.store(0, std::memory_order_release);
    std::atomic_thread_fence(std::memory_order_release);
    to.peer = call.peer;
    to.operation = call.operation;
    to.type = call.type;
    to.count = call.count;
    to.called_at = at;
    to.line = 0;
    to.file[0] = '\0';
    to.number.store(before + 1, std::memory_order_release);
    record(*of, place, wire::RecordKind::transfer, call, before + 1, at);
    break;
  }
  wire::begin_training(*of, at);
}

bool is_repeated(Communicator& communicator, std::uint8_t operation, std::uint64_t sequence) {
  const Held held(communicator);
  if (operation >= communicator.launched.size()) return false;
  std::uint64_t& last = communicator.launched[operation];
  return std::exchange(last, sequence + 1) == sequence + 1;
}

std::array<Communicator, wire::kPageGroups>& communicators() {
  return entries;
}

void miss_calls(Communicator& communicator) {
  if (page() == nullptr) return;
  const Held held(communicator);
  if (communicator.id != 0) set_launches(*communicator.place, wire::Launches::incomplete);
}

}  // namespace ddp::nccl_profiler
