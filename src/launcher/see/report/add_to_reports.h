// Writes the report of a job (--report), also again when more is known after its end.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "launcher/see/view/history_data.h"
#include "launcher/start/log/log_line.h"
#include "launcher/start/plan/launch_plan.h"

namespace ddp::launcher {

// Writes the report of these events, if this is the first node and there is to be one. `histories` are those that the
// events only name. Returns the reason if that fails.
std::optional<base::Failure> write_html_report(const LaunchPlan& plan, int node_rank,
                                               std::span<const std::string> events,
                                               const std::map<int, AttemptHistory>& histories = {});

// Adds these lines to the event log, and writes the report again if this was the first node. They become events of
// `attempts`. `log` gets the reason if something cannot be written.
void add_to_reports(const LaunchPlan& plan, EarlierAttempts& attempts, std::span<const LogLine> lines,
                    const LogWriter& log);

}  // namespace ddp::launcher
