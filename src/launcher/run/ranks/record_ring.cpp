#include "launcher/run/ranks/record_ring.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/printable.h"
#include "launcher/limits.h"
#include "launcher/run/ranks/worker_page.h"
#include "wire/call_names.h"

namespace ddp::launcher {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr auto kAcquire = std::memory_order_acquire;

std::uint64_t nanoseconds(std::chrono::nanoseconds time) {
  return static_cast<std::uint64_t>(time.count());
}

template <std::size_t N>
std::string ring_text(const std::array<char, N>& text) {
  return base::printable({text.data(), ::strnlen(text.data(), N)});
}

bool is_valid(const Record& record) {
  if (record.kind == wire::RecordKind::none || record.kind > wire::RecordKind::transfer) return false;
  const bool is_phase = record.kind == wire::RecordKind::phase;
  const bool has_operation = record.kind == wire::RecordKind::collective || record.kind == wire::RecordKind::gpu ||
                             record.kind == wire::RecordKind::transfer;
  if (is_phase) return record.operation < wire::kPhaseNames.size();
  // The number after the last one is that of PyTorch's other operations, whose names the records have.
  return !has_operation || record.operation <= wire::kOperationNames.size();
}

}  // namespace

RecordRing::RecordRing(wire::RecordMode mode, std::uint64_t now) : made_at_(now) {
  constexpr std::size_t kBytes = sizeof(wire::RecordRingLayout);
  base::UniqueFd memory(::memfd_create("ddp-records", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory || ::ftruncate(memory.get(), kBytes) != 0) return;
  // A worker that shrinks the memory would kill the launcher by SIGBUS.
  ::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  void* mapped = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (mapped == MAP_FAILED) return;
  descriptor_ = std::move(memory);
  ring_.reset(static_cast<wire::RecordRingLayout*>(mapped));  // the memory is zero, as the worker's part must be
  ring_->magic = wire::kRingMagic;
  ring_->version = wire::kRingVersion;
  ring_->bytes = kBytes;
  ring_->mode = mode;
}

void RecordRing::set_mode(wire::RecordMode mode) const {
  if (ring_ != nullptr) ring_->mode.store(mode, kRelaxed);
}

RankRecords RecordRing::take(const wire::StatusPageLayout* page, std::uint64_t now, bool has_ended) {
  RankRecords taken;
  taken.groups.emplace_back();
  taken.names.emplace_back();
  if (ring_ == nullptr) return taken;
  const std::uint64_t claimed = ring_->claimed.load(kAcquire);
  if (claimed - taken_ > wire::kRingRecords) {
    // No writer claims that many, so the memory is damaged. What it contains may be anything.
    ++invalid_;
    taken_ = claimed;
  }
  while (taken_ != claimed) {
    wire::RingRecord& record = ring_->records[taken_ % wire::kRingRecords];
    const std::uint64_t begin = record.begin.load(kAcquire);
    if (begin == 0 && !is_overdue(now, has_ended)) break;
    waiting_since_ = 0;
    begin == 0 ? void(++invalid_) : accept(record, begin, now, page, taken);
    record.begin.store(0, kRelaxed);
    ++taken_;
  }
  ring_->taken.store(taken_, std::memory_order_release);
  taken.dropped = ring_->dropped.load(kRelaxed) + invalid_;
  forget_indices(taken);
  return taken;
}

// Returns whether the record that the worker has claimed and not written is not waited for any more.
bool RecordRing::is_overdue(std::uint64_t now, bool has_ended) {
  if (has_ended) return true;
  if (waiting_since_ == 0) waiting_since_ = now;
  return now - waiting_since_ >= nanoseconds(limits::kRecordPatience);
}

void RecordRing::accept(const wire::RingRecord& record, std::uint64_t begin, std::uint64_t now,
                        const wire::StatusPageLayout* page, RankRecords& taken) {
  Record copy;
  copy.kind = record.kind;
  copy.operation = record.operation;
  copy.number = record.number;
  copy.begin = begin;
  copy.end = record.end;
  copy.bytes = record.bytes;
  // The worker may have written the record after `now`.
  const std::uint64_t latest = now + nanoseconds(limits::kRecordPatience);
  if (!is_valid(copy) || begin < made_at_ || copy.end < begin || copy.end > latest) {
    ++invalid_;
    return;
  }
  copy.group = group_at(record.group, page, taken);
  copy.name = name_at(record.name, taken);
  taken.records.push_back(copy);
}

std::uint16_t RecordRing::group_at(std::uint8_t place, const wire::StatusPageLayout* page, RankRecords& taken) {
  if (page == nullptr || place >= wire::kPageGroups) return 0;
  std::uint16_t& index = groups_[place];
  if (index != 0) return index;
  const wire::PageGroup& group = page->groups[place];
  const int size = group.size;
  // The entry of a group that the program has left keeps its data until another group needs it.
  if (size < 1) return 0;
  index = static_cast<std::uint16_t>(taken.groups.size());
  const std::string name = ring_text(group.name);
  taken.groups.push_back({group.identity, name.empty() ? name_of_communicator(group.identity) : name, size});
  return index;
}

std::uint16_t RecordRing::name_at(std::uint8_t place, RankRecords& taken) {
  if (place == 0) return 0;
  std::uint16_t& index = names_[place];
  if (index != 0) return index;
  const wire::RingName& name = ring_->names[place];
  if (name.hash.load(kAcquire) <= wire::kNameIsWritten) return 0;
  index = static_cast<std::uint16_t>(taken.names.size());
  taken.names.push_back(ring_text(name.text));
  return index;
}

void RecordRing::forget_indices(const RankRecords& taken) {
  if (taken.groups.size() > 1) groups_.fill(0);
  if (taken.names.size() > 1) names_.fill(0);
}

void RecordRing::discard() {
  if (ring_ == nullptr) return;
  const std::uint64_t claimed = ring_->claimed.load(kAcquire);
  const std::uint64_t count = std::min<std::uint64_t>(claimed - taken_, wire::kRingRecords);
  for (std::uint64_t i = 0; i < count; ++i) {
    ring_->records[(taken_ + i) % wire::kRingRecords].begin.store(0, kRelaxed);
  }
  taken_ = claimed;
  waiting_since_ = 0;
  ring_->taken.store(taken_, std::memory_order_release);
}

std::vector<ProgressValue> RecordRing::values() const {
  if (ring_ == nullptr) return {};
  // The worker writes the values in less than a microsecond. If they never become consistent, it is dead or broken.
  for (int i = 0; i < 3; ++i) {
    const std::uint32_t before = ring_->changes.load(kAcquire);
    const std::size_t count = std::min<std::size_t>(ring_->value_count, wire::kRingValues);
    const std::array<wire::RingValue, wire::kRingValues> copies = ring_->values;
    std::atomic_thread_fence(kAcquire);
    if (before % 2 != 0 || ring_->changes.load(kRelaxed) != before) continue;
    std::vector<ProgressValue> values;
    for (std::size_t n = 0; n < count; ++n) values.push_back({ring_text(copies[n].name), copies[n].value});
    return values;
  }
  return {};
}

}  // namespace ddp::launcher
