// Says what a rank does at the moment of a sample. This is the unit of all shares of time in the views.
#pragma once

#include <array>
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

// Returns text such as "computing".
constexpr std::string_view name_of(RankState state) {
  constexpr std::array<std::string_view, kRankStates> kNames = {"unknown", "computing", "collective", "waiting",
                                                                "phase",   "stopped",   "ended"};
  return kNames.at(static_cast<std::size_t>(state));
}

// Returns the steps so far: those that the runtime or heartbeats count, or else those that the program reports.
inline std::uint64_t steps_of(const PageView& page) {
  if (page.steps > 0) return page.steps;
  return page.progress_done > 0 ? page.progress_done : page.optimizer_steps;
}

}  // namespace ddp::launcher
