// Says what a rank does at the moment of a sample. This is the unit of all shares of time in the views.
#pragma once

#include <cstdint>
#include <string_view>

#include "launcher/run/ranks/worker_page.h"

namespace ddp::launcher {

enum class RankState : std::uint8_t {
  unknown,     // it has no status page yet, or none at all
  computing,   // it runs the program
  collective,  // it waits for the end of a collective that all of its ranks have called
  waiting,     // it waits for ranks that have not called its collective, or for a transfer
  phase,       // it is in a phase other than training, such as data loading
  stopped,     // it is stopped by a signal or a debugger
  ended,
};
inline constexpr int kRankStates = 7;

std::string_view name_of(RankState state);  // such as "computing"

// Returns the steps so far: those that the runtime or heartbeats count, or else those that the program reports.
std::uint64_t steps_of(const PageView& page);

}  // namespace ddp::launcher
