// Implements `ddplaunch top`: one process that shows a job of another launcher.
#pragma once

#include <string>
#include <vector>

#include "launcher/see/view/top_view.h"
#include "launcher/start/cli/subcommand_options.h"
#include "launcher/start/log/log.h"

namespace ddp::launcher {

// Shows a job until the user quits or the job ends, or prints it once. Returns the exit code. `environment` has lines
// "NAME=value". Text for standard output is passed to `print`, which returns an exit code.
int run_top_command(const TopOptions& options, const std::vector<std::string>& environment, Log& log,
                    int (*print)(const std::string& text));

// Returns what the terminal can show according to these variables. This function is pure.
FrameStyle style_of_terminal(const TopOptions& options, const std::vector<std::string>& environment, bool is_terminal);

}  // namespace ddp::launcher
