// These functions show ranks as a table or as a map. They are pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launcher/see/view/rank_groups.h"
#include "launcher/see/view/top_view.h"

namespace ddp::launcher {

// `singles` are sorted by rank. Returns at most `most.rows` lines, of which the last one explains the cells. A cell
// shows by how much the others wait for its ranks, or a mark if one of its ranks is a culprit or stopped.
std::vector<std::string> heat_map(std::span<const RankGroup> singles, FrameSize most, FrameStyle frame_style);

// Returns a line of titles and a line for each group. Columns that do not fit are left out, the least important first.
std::vector<std::string> rank_table(std::span<const RankGroup> groups, std::optional<int> selected, int columns,
                                    FrameStyle frame_style);

}  // namespace ddp::launcher
