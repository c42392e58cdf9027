// `ddplaunch store`: one process, no guardian, no workers.
#pragma once

#include <string>
#include <vector>

#include "launcher/cli/store_options.h"
#include "launcher/log/log.h"

namespace ddp::launcher {

// Does what the options say, until it is done or asked to end. Returns the exit code. `environment` has lines
// "NAME=value"; text for the standard output is given to `print`, which returns an exit code.
int run_store_command(const StoreOptions& options, const std::vector<std::string>& environment, Log& log,
                      int (*print)(const std::string& text));

}  // namespace ddp::launcher
