// HeatMap shows many ranks in few lines: a cell for each rank, or for each block of ranks. It is pure.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "launcher/see/view/rank_groups.h"
#include "launcher/see/view/top_view.h"

namespace ddp::launcher {

// `singles` are sorted by rank. Returns at most `most.rows` lines, of which the last one explains the cells. A cell
// shows by how much the others wait for its ranks, or a mark if one of its ranks is a culprit or stopped.
std::vector<std::string> heat_map(std::span<const RankGroup> singles, FrameSize most, FrameStyle frame_style);

}  // namespace ddp::launcher
