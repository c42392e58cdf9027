// Adds lines about a job that has ended to its reports.
#pragma once

#include <functional>
#include <span>

#include "launcher/start/log/log_line.h"
#include "launcher/start/plan/launch_plan.h"

namespace ddp::launcher {

// Adds these lines to the event log, and writes the report again if this was the first node. They become events of
// `attempts`. `log` gets the reason if something cannot be written.
void add_to_reports(const LaunchPlan& plan, EarlierAttempts& attempts, std::span<const LogLine> lines,
                    const LogWriter& log);

}  // namespace ddp::launcher
