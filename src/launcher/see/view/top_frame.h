// These functions show a job on a terminal. A frame is a pure function of a snapshot and of how the user looks at it.
#pragma once

#include <string>
#include <vector>

#include "launcher/see/view/job_snapshot.h"
#include "launcher/see/view/rank_groups.h"
#include "launcher/see/view/top_view.h"

namespace ddp::launcher {

// Returns exactly `size.rows` lines of at most `size.columns` columns: the whole screen, with the keys in its last
// line.
std::vector<std::string> top_frame(const JobSnapshot& snapshot, const TopView& view, FrameSize size,
                                   FrameStyle frame_style);

// Returns at most `most.rows` lines that show the job below its output (--live), or once. They have no keys.
std::vector<std::string> job_lines(const JobSnapshot& snapshot, const TopView& view, FrameSize most,
                                   FrameStyle frame_style);

// Contains the rows of the table in a frame of this size, from the first to the last, also those that are scrolled out.
// `layout` is never `automatic`. A map has below it the ranks that need attention most.
struct ShownRanks {
  RankLayout layout = RankLayout::ranks;
  std::vector<RankGroup> rows;
};
ShownRanks shown_ranks_of(const JobSnapshot& snapshot, const TopView& view, FrameSize size);

// Returns how many lines of a pane, or rows of a table, fit into a frame of this size.
int page_of(const JobSnapshot& snapshot, FrameSize size);

}  // namespace ddp::launcher
