#include "runtime/progress/group_progress.h"

#include <string_view>

#include "base/hash.h"

namespace ddp::internal {
namespace {

// Writes the fields that the page has for collectives and for transfers alike.
template <typename Entry>
void show(const Call& call, Entry& entry) {
  const ConstBuffer subject = subject_of(call);
  entry.called_at = monotonic(call.called_at);
  entry.count = subject.count;
  entry.peer = call.peer;
  entry.line = call.site.line;
  entry.operation = static_cast<std::uint8_t>(call.operation);
  entry.type = static_cast<std::uint8_t>(subject.type);
  write_end_of(entry.file, call.site.file == nullptr ? "" : call.site.file);
}

// Shorter waits are not recorded, because they delay no rank noticeably.
constexpr std::uint64_t kShortestWait = 20'000;  // nanoseconds

// Holds when the waits of this thread began that are to be recorded; 0 for others. Waits may be nested, because a
// continuation may wait, too. Those nested deeper are not recorded.
struct WaitBegins {
  std::array<std::uint64_t, 4> at{};
  std::size_t depth = 0;
};
thread_local WaitBegins wait_begins_of_this_thread;

// The names of buckets end with the number of the step. Without it, the same bucket has one name in all steps.
std::string_view without_step(std::string_view name) {
  const std::size_t end = name.rfind(", step ");
  return name.substr(0, end);
}

}  // namespace

GroupProgress::GroupProgress(StatusPage page, bool is_shown, const std::string& name, std::uint64_t identity, int rank,
                             int size, RecordRing ring)
    : page_(page), is_shown_(is_shown), ring_(ring) {
  wire::StatusPageLayout* layout = page.memory();
  if (layout == nullptr || !is_shown) return;
  const auto take_place = [&](std::uint32_t wanted, bool is_done) {
    for (wire::PageGroup& group : layout->groups) {
      std::uint32_t found = wanted;
      if (is_done && group.called != group.finished) continue;
      if (!group.in_use.compare_exchange_strong(found, wire::kPageInUse)) continue;
      take(group, name, identity, rank, size);
      return true;
    }
    return false;
  };
  // A group that did all that it had to do is replaced first, and one that failed last.
  if (take_place(wire::kPageLeft, true) || take_place(wire::kPageFree, false)) return;
  if (take_place(wire::kPageLeft, false)) return;
  ++layout->groups_not_shown;
}

void GroupProgress::take(wire::PageGroup& group, const std::string& name, std::uint64_t identity, int rank, int size) {
  group_ = &group;
  const auto place = static_cast<std::uint32_t>(&group - page_.memory()->groups.data());
  std::atomic<std::uint32_t>& used = page_.memory()->places;
  std::uint32_t places = used.load(wire::kRelaxed);
  while (places <= place && !used.compare_exchange_weak(places, place + 1)) {
  }
  group.identity = identity;
  group.rank = rank;
  group.size = size;
  group.blocked = 0;
  // The start of the name is kept, because its end would be the end of a list of ranks.
  write_end_of(group.name, std::string_view(name).substr(0, group.name.size() - 1));
  for (auto* number : {&group.called, &group.started, &group.finished, &group.transfers_called,
                       &group.transfers_finished, &group.gpu_queued, &group.gpu_started, &group.gpu_finished}) {
    number->store(0, wire::kRelaxed);
  }
  for (wire::PageCall& call : group.calls) call.sequence.store(0, wire::kRelaxed);
  for (wire::PageTransfer& transfer : group.transfers) {
    transfer.number.store(0, wire::kRelaxed);
    transfer.is_done.store(1, wire::kRelaxed);
    transfer.waiters.store(0, wire::kRelaxed);
  }
}

GroupProgress::~GroupProgress() {
  if (group_ == nullptr) return;
  // The page goes on to show what this rank has finished, because others may still be at it after this rank has exited.
  const bool is_done = group_->called == group_->finished;
  group_->in_use = has_failed_ || is_done ? wire::kPageLeft : wire::kPageFree;
}

void GroupProgress::called(const Call& call) {
  if (is_shown_) page_.count_calling_thread();
  if (group_ == nullptr) return;
  if (is_transfer(call.operation)) return show_transfer(call);
  fingerprint_ = base::mix(fingerprint_, call.fingerprint);

  wire::PageCall& entry = group_->calls[(call.sequence - 1) % wire::kPageCalls];
  entry.sequence.store(0, wire::kRelaxed);
  std::atomic_thread_fence(std::memory_order_release);
  show(call, entry);
  entry.fingerprint = fingerprint_;
  entry.op = static_cast<std::uint8_t>(call.op.kind);
  write_end_of(entry.name, call.name);
  entry.sequence.store(call.sequence, std::memory_order_release);
  group_->called.store(call.sequence, std::memory_order_release);
}

void GroupProgress::started(const Call& call) {
  if (group_ != nullptr && !is_transfer(call.operation)) raise_to(group_->started, call.sequence);
}

void GroupProgress::finished(const Call& call) {
  show_finished(call);
  if (!records(call)) return;
  record(is_transfer(call.operation) ? wire::RecordKind::transfer : wire::RecordKind::collective, call,
         monotonic(call.called_at), monotonic_now());
}

void GroupProgress::show_finished(const Call& call) {
  if (group_ == nullptr) return page_.count_other_progress();
  if (!is_transfer(call.operation)) return group_->finished.store(call.sequence, std::memory_order_release);
  const std::lock_guard lock(transfers_);
  if (wire::PageTransfer* transfer = transfer_of(call)) transfer->is_done.store(1, std::memory_order_release);
  group_->transfers_finished.fetch_add(1, wire::kRelaxed);
}

bool GroupProgress::records(const Call& call) const {
  if (!is_shown_) return false;
  return is_transfer(call.operation) ? ring_.mode() == wire::RecordMode::all : ring_.wants(call.sequence);
}

void GroupProgress::ran_on_gpu(const Call& call, std::chrono::steady_clock::time_point begin,
                               std::chrono::steady_clock::time_point end) {
  if (records(call)) record(wire::RecordKind::gpu, call, monotonic(begin), monotonic(end));
}

void GroupProgress::record(wire::RecordKind kind, const Call& call, std::uint64_t begin, std::uint64_t end) const {
  const bool is_wait_for_transfer = kind == wire::RecordKind::wait && is_transfer(call.operation);
  const auto place = group_ == nullptr ? wire::kNoRingGroup : group_ - page_.memory()->groups.data();
  ring_.add({.kind = kind,
             .begin = begin,
             .end = end,
             .bytes = kind == wire::RecordKind::wait ? 0 : subject_of(call).bytes(),
             .number = is_wait_for_transfer ? 0 : call.sequence,
             .group = static_cast<std::uint8_t>(place),
             .operation = static_cast<std::uint8_t>(call.operation),
             .name = without_step(call.name)});
}

void GroupProgress::record_wait(const Call& call, bool begins) const {
  WaitBegins& waits = wait_begins_of_this_thread;
  if (begins) {
    if (waits.depth++ < waits.at.size()) waits.at[waits.depth - 1] = ring_.wants(call.sequence) ? monotonic_now() : 0;
    return;
  }
  const std::uint64_t begin = --waits.depth < waits.at.size() ? waits.at[waits.depth] : 0;
  if (begin == 0) return;
  const std::uint64_t end = monotonic_now();
  if (end - begin > kShortestWait) record(wire::RecordKind::wait, call, begin, end);
}

void GroupProgress::waits(const Call& call, bool begins) {
  if (!is_shown_) return;
  page_.thread_waits(begins);
  record_wait(call, begins);
  if (group_ == nullptr) return;
  const bool blocks = !call.is_programs_timeout;
  if (is_transfer(call.operation)) {
    const std::lock_guard lock(transfers_);
    wire::PageTransfer* transfer = transfer_of(call);
    if (transfer == nullptr) return;
    transfer->waiters.fetch_add(begins ? 1U : ~0U, wire::kRelaxed);
  } else if (blocks) {
    group_->blocked.fetch_add(begins ? 1U : ~0U, wire::kRelaxed);
  }
  if (blocks) page_.thread_blocks(begins);
}

void GroupProgress::polls() {
  if (group_ == nullptr) return;
  page_.memory()->worker.polled_at.store(monotonic(std::chrono::steady_clock::now()), wire::kRelaxed);
}

// Uses the place that has been done for longest. If there are more transfers than places, some are not shown.
void GroupProgress::show_transfer(const Call& call) {
  const std::lock_guard lock(transfers_);
  group_->transfers_called.fetch_add(1, wire::kRelaxed);
  wire::PageTransfer* entry = nullptr;
  for (wire::PageTransfer& transfer : group_->transfers) {
    const bool is_free = transfer.is_done.load(wire::kRelaxed) != 0 && transfer.waiters.load(wire::kRelaxed) == 0;
    if (is_free && (entry == nullptr || transfer.called_at < entry->called_at)) entry = &transfer;
  }
  if (entry == nullptr) return;
  entry->number.store(0, wire::kRelaxed);
  std::atomic_thread_fence(std::memory_order_release);
  show(call, *entry);
  entry->is_done.store(0, wire::kRelaxed);
  entry->number.store(call.sequence, std::memory_order_release);
}

wire::PageTransfer* GroupProgress::transfer_of(const Call& call) {
  const auto operation = static_cast<std::uint8_t>(call.operation);
  for (wire::PageTransfer& transfer : group_->transfers) {
    const bool is_it = transfer.number.load(wire::kRelaxed) == call.sequence && transfer.operation == operation &&
                       transfer.peer == call.peer;
    if (is_it) return &transfer;
  }
  return nullptr;
}

}  // namespace ddp::internal
