// A NodeArea holds the data that a rank publishes to the other ranks of its node, in memory that all of them map.
// docs/development/protocol.md describes it. All ranks of a group run the same build (the version is compared), so the
// layout may change with it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace ddp::internal {

inline constexpr std::uint32_t kNodeAreaMagic = 0x41504444;  // "DDPA"
inline constexpr std::uint32_t kNodeAreaVersion = 6;
inline constexpr std::size_t kCallRecords = 64;
// A rank may be this far ahead of another one, and the calls that they make under one number are still compared.
inline constexpr std::size_t kCallPrints = 2048;
// Larger groups do not compare the counts of their parts before a call.
inline constexpr std::size_t kComparedParts = 16;

// Other ranks wait for this counter. They sleep on `value`, and count themselves in `sleepers`.
struct alignas(64) SharedCounter {
  std::atomic<std::uint32_t> value = 0;
  std::atomic<std::uint32_t> sleepers = 0;
};

enum class RankState : std::uint32_t { working, left, failed };

// Holds how many elements a rank gives to each rank, and takes from each, in operations in which the counts may differ.
struct PartCounts {
  std::array<std::uint64_t, kComparedParts> gives{};
  std::array<std::uint64_t, kComparedParts> takes{};
};

// Describes one collective call. The owner writes `sequence` last, so that readers that see it see the rest. The record
// is used again kCallRecords calls later.
struct alignas(64) CallRecord {
  std::atomic<std::uint64_t> sequence = 0;
  std::atomic<std::uint64_t> fingerprint = 0;  // may be read while it is overwritten
  // These fields say where the input lies, for peers that have mapped it: in the owner's memory, and in which of its
  // shared segments (0 if in none).
  std::uint64_t address = 0;
  std::uint64_t offset = 0;
  std::uint32_t segment = 0;
  std::int32_t line = 0;
  double factor = 1;  // factor of the owner's values in a sum
  // Messages show these fields. Names are cut.
  std::uint64_t count = 0;
  std::int32_t peer = 0;
  std::uint8_t operation = 0;
  std::uint8_t type = 0;
  std::uint8_t op = 0;
  std::array<char, 53> name{};
  std::array<char, 64> file{};
  PartCounts parts;  // only for operations with parts, in groups of at most kComparedParts ranks
};
static_assert(sizeof(CallRecord) == 448);

// Remains for longer than the record of the same call.
struct CallPrint {
  std::atomic<std::uint64_t> sequence = 0;
  std::atomic<std::uint64_t> fingerprint = 0;
};

// Carries messages from the owner to one other rank, through two halves of a buffer that are filled and emptied in
// turn.
struct NodeChannel {
  // Describes the message that lies in a half, in whole or in part.
  struct Message {
    std::uint64_t bytes = 0;
    std::uint32_t type = 0;
  };

  // Holds the sequences of one side's newest operation that was called, and of the newest one that is complete.
  struct Side {
    std::atomic<std::uint64_t> called = 0;
    std::atomic<std::uint64_t> done = 0;
  };

  SharedCounter filled;   // raised by the owner
  SharedCounter emptied;  // raised by the receiver
  std::array<Message, 2> messages;
  Side sends;     // written by the owner
  Side receives;  // written by the receiver
};
static_assert(sizeof(NodeChannel) == 192);

struct NodeArea {
  std::uint32_t magic = kNodeAreaMagic;
  std::uint32_t version = kNodeAreaVersion;
  std::uint64_t nonce = 0;
  std::uint64_t stage_bytes = 0;
  std::uint64_t channel_bytes = 0;
  std::array<std::uint64_t, 16> processors{};  // bit k of word n says that the owner may run on processor 64 n + k
  // It lies with fields that never change, so that other ranks read it from their own cache.
  std::atomic<RankState> state = RankState::working;
  alignas(64) std::atomic<std::uint64_t> shown = 0;  // sequence of the newest collective that the owner has reached
  std::atomic<std::uint64_t> done = 0;               // sequence of the newest collective that the owner has completed
  std::atomic<bool> uses_others = false;             // the owner accesses other ranks' memory in place
  SharedCounter arrived;                             // rounds in which the owner has arrived; see runtime/backend/cpu
  std::array<CallRecord, kCallRecords> records;
  std::array<CallPrint, kCallPrints> prints;
  // The area is followed by a NodeChannel for each rank, the channels' buffers, and 4 * stage_bytes of staging memory.
};

}  // namespace ddp::internal
