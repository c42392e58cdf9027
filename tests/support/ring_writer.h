// RingWriter writes records into a ring as a worker does, for tests of the launcher.
#pragma once

#include <sys/mman.h>

#include <cstring>
#include <string>

#include "wire/record_ring_layout.h"

namespace ddp::test {

class RingWriter {
 public:
  explicit RingWriter(int descriptor)
      : ring(static_cast<wire::RecordRingLayout*>(
            ::mmap(nullptr, sizeof(wire::RecordRingLayout), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0))) {}
  ~RingWriter() { ::munmap(ring, sizeof *ring); }
  RingWriter(const RingWriter&) = delete;
  RingWriter& operator=(const RingWriter&) = delete;

  // Returns the claimed record, or null if the ring is full.
  wire::RingRecord* claim() {
    if (ring->claimed - ring->taken >= wire::kRingRecords) {
      ++ring->dropped;
      return nullptr;
    }
    return &ring->records[ring->claimed++ % wire::kRingRecords];
  }

  bool write(wire::RecordKind kind, std::uint32_t number, std::uint64_t begin, std::uint64_t end,
             std::uint8_t group = wire::kNoRingGroup, std::uint8_t operation = 0, std::uint8_t name = 0,
             std::uint64_t bytes = 0) {
    wire::RingRecord* const record = claim();
    if (record == nullptr) return false;
    record->end = end;
    record->bytes = bytes;
    record->number = number;
    record->kind = kind;
    record->group = group;
    record->operation = operation;
    record->name = name;
    record->begin.store(begin, std::memory_order_release);
    return true;
  }

  void name(std::uint8_t index, const std::string& text) {
    text.copy(ring->names[index].text.data(), ring->names[index].text.size());
    ring->names[index].hash = wire::kNameIsWritten + 1;
  }

  wire::RecordRingLayout* const ring;
};

}  // namespace ddp::test
