// These functions show what concerns the job as a whole: its name, its figures and its stall. They are pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/see/view/job_snapshot.h"
#include "launcher/see/view/top_view.h"

namespace ddp::launcher {

// Returns at most `most.rows` lines. Figures that do not fit are left out, the least important first.
std::vector<std::string> job_header(const JobSnapshot& snapshot, FrameSize most, FrameStyle frame_style);

}  // namespace ddp::launcher
