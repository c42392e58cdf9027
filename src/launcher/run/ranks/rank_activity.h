// RankActivity says for how long a rank has shown no sign of life. ActivityMeter measures it.
// docs/development/decisions/0026-three-classes-of-hangs.md explains the signs.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ddp::launcher {

enum class Sign : std::uint8_t { none, output, processes, processor, runnable, faults, io, network, gpu };

std::string_view name_of(Sign sign);   // for example "processor", as in the event log
std::string_view describe(Sign sign);  // for example "it uses a processor"; for `none`, "it shows no sign of life"

// Describes the activity of one rank. The ages grow by whole windows, from the first sample after the job last made
// progress.
struct RankActivity {
  std::chrono::nanoseconds still_for{0};    // time without a sign of life
  std::chrono::nanoseconds unmoved_for{0};  // time without data over TCP, shared memory, or to or from its GPU
  bool is_complete = false;                 // all signs could be read
  Sign last_sign = Sign::none;              // the sign in the last complete window
  double cpu_share = 0;                     // share of one processor in the current window
  bool counts_gpu_data = false;             // `unmoved_for` includes data to and from its GPU
  // Time since it last exchanged data with another rank over TCP. std::nullopt if no exchange was seen.
  std::optional<std::chrono::nanoseconds> exchanged_ago = std::nullopt;

  friend bool operator==(const RankActivity&, const RankActivity&) = default;
};

}  // namespace ddp::launcher
