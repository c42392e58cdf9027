#include "wire/record_writer.h"

#include <algorithm>
#include <cstring>

#include "base/hash.h"

namespace ddp::wire {
namespace {

// A full table is then still searched quickly.
constexpr std::uint32_t kProbes = 8;

template <std::size_t N>
bool is_text(const std::array<char, N>& held, std::string_view text) {
  return std::memcmp(held.data(), text.data(), text.size()) == 0 && held[text.size()] == '\0';
}

std::uint32_t hash_of(std::string_view text) {
  std::uint64_t state = text.size();
  while (!text.empty()) {
    const std::size_t bytes = std::min(text.size(), sizeof(std::uint64_t));
    std::uint64_t word = 0;
    std::memcpy(&word, text.data(), bytes);
    state = base::mix(state, word);
    text.remove_prefix(bytes);
  }
  const auto hash = static_cast<std::uint32_t>(state >> 32U);
  return std::max(hash, kNameIsWritten + 1);
}

// Returns the name's entry, which it makes if there is none. Returns 0 for no name, and if there is no free entry.
std::uint8_t name_place(RecordRingLayout& ring, std::string_view name) {
  if (name.empty()) return 0;
  name = name.substr(0, ring.names.front().text.size() - 1);
  const std::uint32_t hash = hash_of(name);
  for (std::uint32_t probe = 0; probe < kProbes; ++probe) {
    const std::uint32_t place = 1 + ((hash + probe) % (kRingNames - 1));
    RingName& entry = ring.names[place];
    std::uint32_t found = entry.hash.load(std::memory_order_acquire);
    if (found == 0 && entry.hash.compare_exchange_strong(found, kNameIsWritten)) {
      entry.text[name.copy(entry.text.data(), name.size())] = '\0';
      entry.hash.store(hash, std::memory_order_release);
      return static_cast<std::uint8_t>(place);
    }
    if (found == hash && is_text(entry.text, name)) return static_cast<std::uint8_t>(place);
  }
  return 0;
}

// Returns null if the launcher has not made space.
RingRecord* claim(RecordRingLayout& ring) {
  std::uint64_t claimed = ring.claimed.load(std::memory_order_relaxed);
  while (true) {
    const std::uint64_t taken = ring.taken.load(std::memory_order_acquire);
    // More records taken than claimed means that the number is old, and the exchange fails, or that it is damaged.
    const std::uint64_t next = std::max(claimed, taken);
    if (next - taken >= kRingRecords) return nullptr;
    if (ring.claimed.compare_exchange_weak(claimed, next + 1, std::memory_order_relaxed))
      return &ring.records[next % kRingRecords];
  }
}

}  // namespace

void add_record(RecordRingLayout& ring, const NewRecord& record) {
  const std::uint8_t name = name_place(ring, record.name);
  RingRecord* to = claim(ring);
  if (to == nullptr) {
    ring.dropped.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  to->end = record.end;
  to->bytes = record.bytes;
  to->number = static_cast<std::uint32_t>(record.number);
  to->kind = record.kind;
  to->group = record.group;
  to->operation = record.operation;
  to->name = name;
  to->begin.store(std::max<std::uint64_t>(record.begin, 1), std::memory_order_release);
}

}  // namespace ddp::wire
