// Writes records into a ring (wire/record_ring_layout.h).
#pragma once

#include <cstdint>
#include <string_view>

#include "wire/record_ring_layout.h"

namespace ddp::wire {

// Represents a record to be written. The members are those of RingRecord.
struct NewRecord {
  RecordKind kind = RecordKind::none;
  std::uint64_t begin = 0;  // CLOCK_MONOTONIC, nanoseconds
  std::uint64_t end = 0;
  std::uint64_t bytes = 0;
  std::uint64_t number = 0;  // its low 32 bits are written
  std::uint8_t group = kNoRingGroup;
  std::uint8_t operation = 0;
  std::string_view name = {};
};

// Adds a record, whatever the mode is. If the launcher has not made space, the record is counted as dropped. Any thread
// of the writer may call it. It takes no lock.
void add_record(RecordRingLayout& ring, const NewRecord& record);

}  // namespace ddp::wire
