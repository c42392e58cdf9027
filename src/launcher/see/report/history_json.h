// Writes and reads the event `history`: docs/reference/event-log.md.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>

#include "launcher/see/report/job_json.h"
#include "launcher/see/view/history_data.h"

namespace ddp::launcher {

// Returns one line without its line end. `node` is the name of this node in the job.
std::string history_line(const LaunchPlan& plan, const std::string& node, const AttemptHistory& history, WallTime now);

// Rounds the numbers as history_line() does, so that the launcher's own report shows the same as one that is made from
// its event log.
AttemptHistory as_logged(AttemptHistory history);

// Reads it back, for a report that is made from an event log. Nothing of the event is trusted.
AttemptHistory read_history(const nlohmann::json& event);

}  // namespace ddp::launcher
