#include "launcher/ranks/rank_state.h"

#include <array>

namespace ddp::launcher {

std::string_view name_of(RankState state) {
  constexpr std::array<std::string_view, kRankStates> kNames = {"unknown", "computing", "collective", "waiting",
                                                                "phase",   "stopped",   "ended"};
  return kNames.at(static_cast<std::size_t>(state));
}

std::uint64_t steps_of(const PageView& page) {
  return page.steps > 0 ? page.steps : page.progress_done;
}

}  // namespace ddp::launcher
