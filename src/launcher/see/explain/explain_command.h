// Runs `ddplaunch explain`: explains from logs why a job has failed.
#pragma once

#include <functional>
#include <string>

#include "launcher/start/cli/subcommand_options.h"
#include "launcher/start/log/log.h"

namespace ddp::launcher {

// Returns the exit code. `print` writes to the standard output, and returns the exit code for that.
int run_explain_command(const ExplainOptions& options, Log& log, const std::function<int(const std::string&)>& print);

}  // namespace ddp::launcher
