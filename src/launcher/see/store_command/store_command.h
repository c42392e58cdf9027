// Implements `ddplaunch store`: one process, without a guardian or workers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/start/cli/subcommand_options.h"
#include "launcher/start/log/log.h"

namespace ddp::launcher {

// Does what the options say, until it is done or asked to end. Returns the exit code. `environment` has lines
// "NAME=value". Text for standard output is passed to `print`, which returns an exit code.
int run_store_command(const StoreOptions& options, const std::vector<std::string>& environment, Log& log,
                      int (*print)(const std::string& text));

// Returns what the command logs while it serves: where the store is, and which variables programs need to find it.
// `host_name` is for a store that listens on all interfaces. This function is pure.
std::string serving_line(const StoreOptions& options, std::uint16_t port, const std::string& host_name);

// Returns why the store does not listen, and what to do.
std::string listen_failure(const StoreOptions& options, const std::string& why);

// Returns warnings about options without effect. `token_source` names the source of the token, or is empty if there is
// none.
std::vector<std::string> store_warnings(const StoreOptions& options, const std::string& token_source);

}  // namespace ddp::launcher
