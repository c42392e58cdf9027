// Runs `ddplaunch report`: makes a report from an event log.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/start/cli/subcommand_options.h"
#include "launcher/start/log/log.h"

namespace ddp::launcher {

// Returns the lines of the run with this id, or of all of the last runs if it is empty, within limits. Returns the
// reason if the file cannot be read.
base::Result<std::vector<std::string>> read_event_log(const std::string& path, const std::string& run_id);

// Returns the exit code. `print` writes to the standard output, and returns the exit code for that.
int run_report_command(const ReportOptions& options, Log& log, const std::function<int(const std::string&)>& print);

}  // namespace ddp::launcher
