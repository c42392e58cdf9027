// CallTimesLayout is shared memory in which a library in a PyTorch worker (src/call_times) writes when collectives of
// Gloo begin and end, and from which ddp_torch_reader takes it. docs/development/protocol.md, section 10, describes it.
// The reader trusts nothing in it except its size.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace ddp::wire {

inline constexpr std::uint32_t kCallTimesMagic = 0x54504444;  // "DDPT"
inline constexpr std::uint32_t kCallTimesVersion = 2;
inline constexpr std::size_t kCallTimes = 1U << 15;  // a power of two

// Represents a moment of a collective: its begin, the moment from which the caller goes on, or its end. PyTorch's
// recorder notes the call between the first two. `work` is the address of PyTorch's object for the call, which may
// serve again after the call's end.
struct CallTime {
  std::atomic<std::uint64_t> number;  // counts from 1; 0 while the rest is written
  std::uint64_t at;                   // CLOCK_REALTIME, nanoseconds
  std::uint64_t work;                 // 0 if the caller goes on
  std::uint64_t group;                // address of PyTorch's object for the group; 0 for an end
  std::uint64_t sequence;             // PyTorch's number of the collective in its group; 0 for an end
};
static_assert(sizeof(CallTime) == 40);

struct CallTimesLayout {
  std::uint32_t magic;
  std::uint32_t version;
  std::atomic<std::uint64_t> claimed;  // number of entries that were begun
  std::array<CallTime, kCallTimes> times;
};

}  // namespace ddp::wire
