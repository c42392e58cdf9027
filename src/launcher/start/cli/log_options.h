// Declares the options of the launcher's own log, which all commands have.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "launcher/start/cli/option_set.h"
#include "launcher/start/log/log_line.h"

namespace ddp::launcher {

// Declares -q, -v, --log-level and --launcher-log at `command`, which sets `log` when it parses.
void declare_log_options(OptionSet& command, LogSettings& log);

// Returns --log-level as the variable DDP_LOG sets it, or nothing if it is not set. All other settings take precedence.
std::vector<Setting> log_level_of_variable(std::span<const std::string> environment, const OptionList& options);

// Sets the level that the last of -q, -v and --log-level asks for.
void choose_log_level(std::span<const Setting> settings, LogSettings& log);

}  // namespace ddp::launcher
