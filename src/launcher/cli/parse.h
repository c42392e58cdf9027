// From the command line, the environment and a configuration file to Options.
#pragma once

#include <span>
#include <string>
#include <variant>

#include "launcher/cli/options.h"
#include "launcher/cli/store_options.h"

namespace ddp::launcher {

// --help, --version and the like: print this and leave with 0.
struct Information {
  std::string text;
};

// The user's mistake: print this and leave with 2. Says what to do.
struct UsageError {
  std::string message;
};

// Another launcher has started this one: its command line comes over the standard input (remote/launch_request.h).
struct OnHost {};

// The command line wins over PET_* variables, these over --config, that over the defaults. The name in argv[0] decides
// the compatibility mode: torchrun is torchrun. `environment` has lines "NAME=value". Reads no file but that of
// --config.
using ParsedCommand = std::variant<Options, StoreOptions, OnHost, Information, UsageError>;
ParsedCommand parse_command_line(int argc, const char* const* argv, std::span<const std::string> environment);

}  // namespace ddp::launcher
