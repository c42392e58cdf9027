// Implements `ddplaunch ls`: the list of the running jobs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "launcher/see/top/running_jobs.h"
#include "launcher/start/cli/subcommand_options.h"
#include "launcher/start/log/log.h"

namespace ddp::launcher {

// Prints the running jobs of this user on this node. Returns the exit code. `environment` has lines "NAME=value". Text
// for standard output is passed to `print`, which returns an exit code.
int run_ls_command(const LsOptions& options, const std::vector<std::string>& environment, Log& log,
                   int (*print)(const std::string& text));

// Returns the list as text for people, or as one line of JSON. Both end with a line break. They are pure.
// docs/reference/top.md describes the document.
std::string list_text(std::span<const RunningJob> jobs);
std::string list_json(std::span<const RunningJob> jobs);

}  // namespace ddp::launcher
