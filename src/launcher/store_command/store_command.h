// `ddplaunch store`: one process, no guardian, no workers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/cli/store_options.h"
#include "launcher/log/log.h"

namespace ddp::launcher {

// Does what the options say, until it is done or asked to end. Returns the exit code. `environment` has lines
// "NAME=value"; text for the standard output is given to `print`, which returns an exit code.
int run_store_command(const StoreOptions& options, const std::vector<std::string>& environment, Log& log,
                      int (*print)(const std::string& text));

// What the command says while it serves. Pure.
// Where the store is, and what programs must be told to find it. `host_name` is for a store that listens everywhere.
std::string serving_line(const StoreOptions& options, std::uint16_t port, const std::string& host_name);

// Why it does not listen, and what to do.
std::string listen_failure(const StoreOptions& options, const std::string& why);

// What the options ask for without effect. `token_source`: what gives the token; empty: nothing does.
std::vector<std::string> store_warnings(const StoreOptions& options, const std::string& token_source);

}  // namespace ddp::launcher
