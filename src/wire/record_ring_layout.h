// RecordRingLayout is shared memory in which a worker records its steps, collectives and phases, and from which the
// launcher takes them. The launcher creates it, next to the status page. docs/development/protocol.md, section 8,
// describes it. The reader trusts nothing in it except its size.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace ddp::wire {

inline constexpr std::uint32_t kRingMagic = 0x52504444;  // "DDPR"
inline constexpr std::uint32_t kRingVersion = 1;
inline constexpr std::size_t kRingRecords = 4096;  // a power of two
inline constexpr std::size_t kRingNames = 256;
inline constexpr std::size_t kRingValues = 8;
// The worker inherits the memory as this descriptor.
inline constexpr int kRingDescriptor = 196;

// Says which records the worker writes. `steps` means each step and each phase, and a sample of the collectives, which
// is_sampled() selects. The launcher may change the mode while the worker runs.
enum class RecordMode : std::uint32_t { off, steps, all };

// Selects collectives by their numbers, so that all ranks of a group record the same ones: 32 in a row of every 256.
inline constexpr bool is_sampled(std::uint64_t number) {
  return (number / 32) % 8 == 0;
}

enum class RecordKind : std::uint8_t {
  none,
  step,        // from the end of the previous step to the end of this one; `number` counts steps from 1
  collective,  // from the call to the end on this rank; `number` counts the collectives of the group from 1
  gpu,         // the same collective on the GPU's stream, as far as the host has seen its begin and its end
  wait,        // a thread of the program was blocked until the end of collective `number`; 0 if it waited for another
               // operation
  phase,       // a phase (`operation`) other than training
  transfer,    // a send or a receive, from the call to its end; `number` counts those of its kind with its peer
};

// The record is 32 bytes. `begin` is 0 while the others are written or read, and is written last.
struct RingRecord {
  std::atomic<std::uint64_t> begin;  // CLOCK_MONOTONIC, nanoseconds
  std::uint64_t end;                 // CLOCK_MONOTONIC, nanoseconds; equal to `begin` if the end is unknown
  std::uint64_t bytes;               // size of the data of a collective or a transfer on this rank
  std::uint32_t number;              // the low 32 bits
  RecordKind kind;
  std::uint8_t group;      // place of the group on the status page; kNoRingGroup if there is none
  std::uint8_t operation;  // enum Operation of runtime/call/call.h; for a phase, enum Phase
  std::uint8_t name;       // index in RecordRingLayout::names; 0 if there is none
};
static_assert(sizeof(RingRecord) == 32);
inline constexpr std::uint8_t kNoRingGroup = 255;

// Holds a name that records refer to. The first entry is unused. A name is never changed once `hash` is written. Names
// may be there twice, because several writers may add the same one.
struct RingName {
  std::atomic<std::uint32_t> hash;  // 0 if the entry is free, kNameIsWritten while `text` is written
  std::array<char, 60> text;        // truncated and ended by 0
};
static_assert(sizeof(RingName) == 64);
inline constexpr std::uint32_t kNameIsWritten = 1;

// Holds a value that the program has reported with its progress, such as the loss.
struct RingValue {
  std::array<char, 24> name;  // truncated and ended by 0
  double value;
};

struct RecordRingLayout {
  // The launcher writes these before the worker starts.
  std::uint32_t magic;
  std::uint32_t version;
  std::uint32_t bytes;
  std::atomic<RecordMode> mode;  // the launcher may change it at any time
  // The worker writes the process that writes all members below; 0 if none has yet.
  std::atomic<std::int32_t> writer;
  std::uint32_t unused;
  // The worker counts the records for which the ring had no space.
  std::atomic<std::uint64_t> dropped;
  // Both numbers only grow. Record n lies at n % kRingRecords. The worker claims a record before it writes it. It drops
  // the record instead if `claimed - taken` is kRingRecords.
  alignas(64) std::atomic<std::uint64_t> claimed;
  alignas(64) std::atomic<std::uint64_t> taken;  // written by the launcher
  // The program's values. `changes` is odd while they are written.
  alignas(64) std::atomic<std::uint32_t> changes;
  std::uint32_t value_count;
  std::array<RingValue, kRingValues> values;
  alignas(64) std::array<RingName, kRingNames> names;
  std::array<RingRecord, kRingRecords> records;
};
static_assert(sizeof(RecordRingLayout) % 64 == 0);

}  // namespace ddp::wire
