// The state memory of a node holds what its programs need to continue: docs/development/protocol.md, section 11. The
// launcher creates it, and it outlives the programs. It is a sparse file in memory with an area for each local rank,
// which the workers read and write by pread() and pwrite().
#pragma once

#include <cstddef>
#include <cstdint>

namespace ddp::wire {

// The worker inherits the memory as this descriptor.
inline constexpr int kStateDescriptor = 195;

// An area begins with its head and entries. The data of the entry at `place` begin at (place + 1) * kStateRegionBytes.
inline constexpr std::uint64_t kStateAreaBytes = std::uint64_t{1} << 42;
inline constexpr std::uint64_t kStateRegionBytes = std::uint64_t{1} << 38;
inline constexpr std::uint64_t kStateEntriesAt = 256;
inline constexpr std::uint64_t kStateEntryBytes = 64;

// The places of what the rank has of its own: of its recent steps, and of those that a whole state belongs to. The last
// places are those of whole states.
inline constexpr int kStateRecent = 8;
inline constexpr int kStatePinned = 2;
inline constexpr int kStateWhole = 2;
inline constexpr int kStatePlaces = kStateRecent + kStatePinned + kStateWhole;
static_assert((kStatePlaces + 1) * kStateRegionBytes <= kStateAreaBytes);
static_assert(kStateEntriesAt + kStatePlaces * kStateEntryBytes <= kStateRegionBytes);

// The launcher holds a POSIX lock of this byte of the file, and gives it up when the programs are to save their state.
// A program that copies a whole state holds one of the bytes after it for the state's key, and one of those after these
// for the place that it writes.
inline constexpr std::uint64_t kStateRequestAt = std::uint64_t{1} << 62;
inline constexpr std::uint64_t kStateClaims = std::uint64_t{1} << 20;

// `early` is written before other ranks can finish the step, `final` when this rank has finished it. `final_moved`
// means that the rank's random state has changed between the two, so that its early entries are of no use.
enum class StateKind : std::int32_t { none, early, final, final_moved, whole };

// The head of an area. The worker writes it, except for `room` and `image_time`, and attempts as their number + 1.
struct StateHead {
  std::uint64_t room;       // bytes of memory that the node has left, as the launcher sees it when it asks
  std::int32_t keeps;       // attempt in which the program keeps its state
  std::int32_t answered;    // attempt in which it has done what the launcher asked for, as far as it could
  std::int32_t restored;    // attempt that has begun with a kept state
  std::int32_t image_time;  // how long it takes to write an image to disk, ms; 0 if that is not known
  std::int64_t restored_step;
};
static_assert(sizeof(StateHead) == 32);

// An entry is written after its data, and cleared before. The check is the CRC-32 of the bytes before it.
struct StateEntry {
  std::int64_t step;  // steps that are finished
  std::uint64_t bytes;
  std::uint64_t key;  // the same on ranks that have the same whole state
  StateKind kind;
  std::int32_t attempt;
  std::int32_t rank;
  std::int32_t world;        // world size
  std::uint32_t data_check;  // CRC-32 of the data; 0 if it was not computed
  std::uint32_t check;
};
static_assert(sizeof(StateEntry) == 48);

}  // namespace ddp::wire
