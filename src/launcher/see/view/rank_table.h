// These functions show ranks as a table. They are pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launcher/see/view/rank_groups.h"
#include "launcher/see/view/top_view.h"

namespace ddp::launcher {

// Returns a line of titles and a line for each group. Columns that do not fit are left out, the least important first.
std::vector<std::string> rank_table(std::span<const RankGroup> groups, std::optional<int> selected, int columns,
                                    FrameStyle frame_style);

}  // namespace ddp::launcher
