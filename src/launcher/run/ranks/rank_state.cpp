#include "launcher/run/ranks/rank_state.h"

#include <array>

namespace ddp::launcher {

std::string_view name_of(RankState state) {
  constexpr std::array<std::string_view, kRankStates> kNames = {"unknown", "computing", "collective", "waiting",
                                                                "phase",   "stopped",   "ended"};
  return kNames.at(static_cast<std::size_t>(state));
}

std::uint64_t steps_of(const PageView& page) {
  if (page.steps > 0) return page.steps;
  return page.progress_done > 0 ? page.progress_done : page.optimizer_steps;
}

}  // namespace ddp::launcher
