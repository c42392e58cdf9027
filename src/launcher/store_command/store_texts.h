// What `ddplaunch store` says while it serves. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/cli/store_options.h"

namespace ddp::launcher {

// Where the store is, and what programs must be told to find it. `host_name` is for a store that listens everywhere.
std::string serving_line(const StoreOptions& options, std::uint16_t port, const std::string& host_name);

// Why it does not listen, and what to do.
std::string listen_failure(const StoreOptions& options, const std::string& why);

// What the options ask for without effect. `token_source`: what gives the token; empty: nothing does.
std::vector<std::string> store_warnings(const StoreOptions& options, const std::string& token_source);

}  // namespace ddp::launcher
