// Builds the event `history`: docs/reference/event-log.md.
#pragma once

#include <string>

#include "launcher/report/job_json.h"
#include "launcher/view/history_data.h"

namespace ddp::launcher {

// Returns one line without its line end. `node` is the name of this node in the job.
std::string history_line(const LaunchPlan& plan, const std::string& node, const AttemptHistory& history, WallTime now);

}  // namespace ddp::launcher
