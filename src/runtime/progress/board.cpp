#include "runtime/progress/board.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include "base/hash.h"
#include "base/text.h"
#include "wire/worker_env.h"

namespace ddp::internal {
namespace {

void raise(std::atomic<std::uint64_t>& number, std::uint64_t to) {
  std::uint64_t now = number.load(wire::kRelaxed);
  while (now < to && !number.compare_exchange_weak(now, to, wire::kRelaxed)) {
  }
}

// CLOCK_MONOTONIC in nanoseconds, as on the board.
std::uint64_t monotonic(std::chrono::steady_clock::time_point time) {
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(time.time_since_epoch()).count());
}

}  // namespace

wire::ProgressBoard* map_board(const char* descriptor) {
  if (descriptor == nullptr) return nullptr;
  const auto fd = base::parse_integer(descriptor, 0, 1 << 30);
  struct stat status {};
  if (!fd || ::fstat(static_cast<int>(*fd), &status) != 0) return nullptr;
  if (status.st_size != static_cast<off_t>(sizeof(wire::ProgressBoard))) return nullptr;
  void* memory =
      ::mmap(nullptr, sizeof(wire::ProgressBoard), PROT_READ | PROT_WRITE, MAP_SHARED, static_cast<int>(*fd), 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* board = static_cast<wire::ProgressBoard*>(memory);
  std::int32_t writer = 0;
  const bool is_ours = board->magic == wire::kBoardMagic && board->version == wire::kBoardVersion &&
                       (board->writer.compare_exchange_strong(writer, ::getpid()) || writer == ::getpid());
  if (is_ours) return board;
  ::munmap(memory, sizeof(wire::ProgressBoard));
  return nullptr;
}

wire::ProgressBoard* process_board() {
  static wire::ProgressBoard* board = map_board(std::getenv(wire::env::kBoard));  // NOLINT(concurrency-mt-unsafe)
  return board;
}

int rank_lost_says_launcher() {
  const wire::ProgressBoard* board = process_board();
  return board == nullptr ? wire::kNoRankLost : board->lost_rank.load(wire::kRelaxed);
}

namespace {

// A thread that has called an operation may make the call that others wait for, until it ends.
struct CallingThread {
  explicit CallingThread(wire::ProgressBoard& of) : board(of) {
    board.worker.calling_threads.fetch_add(1, wire::kRelaxed);
  }
  // A child that was forked has the board as well.
  ~CallingThread() {
    if (board.writer.load(wire::kRelaxed) == ::getpid()) board.worker.calling_threads.fetch_sub(1, wire::kRelaxed);
  }
  CallingThread(const CallingThread&) = delete;
  CallingThread& operator=(const CallingThread&) = delete;

  wire::ProgressBoard& board;
};

// The process' board lives as long as any thread.
void count_calling_thread(wire::ProgressBoard* board) {
  if (board != nullptr && board == process_board()) thread_local const CallingThread here(*board);
}

// Waits within waits: a continuation may wait, too.
thread_local int waits_of_this_thread = 0;

void thread_waits(wire::ProgressBoard* board, bool begins) {
  if (board == nullptr) return;
  if (begins ? waits_of_this_thread++ == 0 : --waits_of_this_thread == 0) {
    board->worker.waiting_threads.fetch_add(begins ? 1U : ~0U, wire::kRelaxed);
  }
}

}  // namespace

void count_handed_on() {
  if (wire::ProgressBoard* board = process_board()) board->worker.handed_on.fetch_add(1, wire::kRelaxed);
}

ThreadWaits::ThreadWaits() {
  count_calling_thread(process_board());
  thread_waits(process_board(), /*begins=*/true);
}

ThreadWaits::~ThreadWaits() {
  thread_waits(process_board(), /*begins=*/false);
}

AwaitsWorld::AwaitsWorld(int world_size) {
  wire::ProgressBoard* board = process_board();
  if (board == nullptr) return;
  board->worlds_entered.fetch_add(1, wire::kRelaxed);
  board->awaited_world.store(static_cast<std::uint32_t>(world_size), wire::kRelaxed);
}

AwaitsWorld::~AwaitsWorld() {
  if (wire::ProgressBoard* board = process_board()) board->awaited_world.store(0, wire::kRelaxed);
}

GroupProgress::GroupProgress(wire::ProgressBoard* board, const std::string& name, std::uint64_t identity, int rank,
                             int size)
    : board_(board) {
  if (board == nullptr) return;
  for (const std::uint32_t wanted : {wire::kBoardFree, wire::kBoardLeft}) {
    for (wire::BoardGroup& group : board->groups) {
      std::uint32_t found = wanted;
      if (!group.in_use.compare_exchange_strong(found, wire::kBoardInUse)) continue;
      take(group, name, identity, rank, size);
      return;
    }
  }
  ++board->groups_not_shown;
}

void GroupProgress::take(wire::BoardGroup& group, const std::string& name, std::uint64_t identity, int rank, int size) {
  group_ = &group;
  const auto place = static_cast<std::uint32_t>(&group - board_->groups.data());
  std::uint32_t places = board_->places.load(wire::kRelaxed);
  while (places <= place && !board_->places.compare_exchange_weak(places, place + 1)) {
  }
  group.identity = identity;
  group.rank = rank;
  group.size = size;
  // The end would be that of a list of ranks.
  write_end_of(group.name, std::string_view(name).substr(0, group.name.size() - 1));
  for (auto* number : {&group.called, &group.started, &group.finished, &group.transfers_called,
                       &group.transfers_finished, &group.gpu_queued, &group.gpu_started, &group.gpu_finished}) {
    number->store(0, wire::kRelaxed);
  }
  for (wire::BoardCall& call : group.calls) call.sequence.store(0, wire::kRelaxed);
  for (wire::BoardTransfer& transfer : group.transfers) {
    transfer.number.store(0, wire::kRelaxed);
    transfer.is_done.store(1, wire::kRelaxed);
    transfer.waiters.store(0, wire::kRelaxed);
  }
}

GroupProgress::~GroupProgress() {
  if (group_ != nullptr) group_->in_use = has_failed_ ? wire::kBoardLeft : wire::kBoardFree;
}

void GroupProgress::called(const Call& call) {
  count_calling_thread(board_);
  if (group_ == nullptr) return;
  if (is_transfer(call.operation)) return show_transfer(call);
  fingerprint_ = base::mix(fingerprint_, call.fingerprint);

  wire::BoardCall& entry = group_->calls[(call.sequence - 1) % wire::kBoardCalls];
  entry.sequence.store(0, wire::kRelaxed);
  std::atomic_thread_fence(std::memory_order_release);
  const ConstBuffer subject = subject_of(call);
  entry.fingerprint = fingerprint_;
  entry.called_at = monotonic(call.called_at);
  entry.count = subject.count;
  entry.peer = call.peer;
  entry.line = call.site.line;
  entry.operation = static_cast<std::uint8_t>(call.operation);
  entry.type = static_cast<std::uint8_t>(subject.type);
  entry.op = static_cast<std::uint8_t>(call.op.kind);
  write_end_of(entry.name, call.name);
  write_end_of(entry.file, call.site.file == nullptr ? "" : call.site.file);
  entry.sequence.store(call.sequence, std::memory_order_release);
  group_->called.store(call.sequence, std::memory_order_release);
}

void GroupProgress::started(const Call& call) {
  if (group_ != nullptr && !is_transfer(call.operation)) raise(group_->started, call.sequence);
}

void GroupProgress::finished(const Call& call) {
  if (group_ == nullptr) return;
  if (!is_transfer(call.operation)) return group_->finished.store(call.sequence, std::memory_order_release);
  const std::lock_guard lock(transfers_);
  if (wire::BoardTransfer* transfer = transfer_of(call)) transfer->is_done.store(1, std::memory_order_release);
  group_->transfers_finished.fetch_add(1, wire::kRelaxed);
}

// What the board does not show is no wait that anybody could judge.
void GroupProgress::waits(const Call& call, bool begins) {
  if (group_ == nullptr) return;
  count_calling_thread(board_);
  if (is_transfer(call.operation)) {
    const std::lock_guard lock(transfers_);
    wire::BoardTransfer* transfer = transfer_of(call);
    if (transfer == nullptr) return;
    transfer->waiters.fetch_add(begins ? 1U : ~0U, wire::kRelaxed);
  }
  thread_waits(board_, begins);
}

void GroupProgress::polls() {
  if (group_ == nullptr) return;
  board_->worker.polled_at.store(monotonic(std::chrono::steady_clock::now()), wire::kRelaxed);
}

ProgramRuns::ProgramRuns() : waits_(std::exchange(waits_of_this_thread, 0)) {
  wire::ProgressBoard* board = process_board();
  if (waits_ > 0 && board != nullptr) board->worker.waiting_threads.fetch_sub(1, wire::kRelaxed);
}

ProgramRuns::~ProgramRuns() {
  wire::ProgressBoard* board = process_board();
  waits_of_this_thread = waits_;
  if (waits_ > 0 && board != nullptr) board->worker.waiting_threads.fetch_add(1, wire::kRelaxed);
}

// In the place that has been done for longest; of more transfers than there are places some are not shown.
void GroupProgress::show_transfer(const Call& call) {
  const std::lock_guard lock(transfers_);
  group_->transfers_called.fetch_add(1, wire::kRelaxed);
  wire::BoardTransfer* entry = nullptr;
  for (wire::BoardTransfer& transfer : group_->transfers) {
    const bool is_free = transfer.is_done.load(wire::kRelaxed) != 0 && transfer.waiters.load(wire::kRelaxed) == 0;
    if (is_free && (entry == nullptr || transfer.called_at < entry->called_at)) entry = &transfer;
  }
  if (entry == nullptr) return;
  entry->number.store(0, wire::kRelaxed);
  std::atomic_thread_fence(std::memory_order_release);
  const ConstBuffer subject = subject_of(call);
  entry->is_done.store(0, wire::kRelaxed);
  entry->called_at = monotonic(call.called_at);
  entry->count = subject.count;
  entry->peer = call.peer;
  entry->line = call.site.line;
  entry->operation = static_cast<std::uint8_t>(call.operation);
  entry->type = static_cast<std::uint8_t>(subject.type);
  write_end_of(entry->file, call.site.file == nullptr ? "" : call.site.file);
  entry->number.store(call.sequence, std::memory_order_release);
}

wire::BoardTransfer* GroupProgress::transfer_of(const Call& call) {
  const auto operation = static_cast<std::uint8_t>(call.operation);
  for (wire::BoardTransfer& transfer : group_->transfers) {
    const bool is_it = transfer.number.load(wire::kRelaxed) == call.sequence && transfer.operation == operation &&
                       transfer.peer == call.peer;
    if (is_it) return &transfer;
  }
  return nullptr;
}

}  // namespace ddp::internal
