// Turns the command line, the environment and a configuration file into Options.
#pragma once

#include <span>
#include <string>
#include <variant>

#include "launcher/start/cli/options.h"
#include "launcher/start/cli/subcommand_options.h"

namespace ddp::launcher {

// Results from --help, --version and the like. The caller prints the text and exits with 0.
struct Information {
  std::string text;
};

// Results from a mistake of the user. The caller prints the message, which says what to do, and exits with 2.
struct UsageError {
  std::string message;
};

// Another launcher has started this one. The command line comes over standard input (remote/launch_request.h).
struct OnHost {};

// A launcher has started this process to check its node: see doctor::run_node_worker().
struct OnNode {};

// The command line takes precedence over PET_* variables, these over --config, and that over the defaults. The name in
// argv[0] decides the compatibility mode: torchrun selects torchrun. `environment` has lines "NAME=value". Reads no
// file except that of --config.
using ParsedCommand = std::variant<Options, StoreOptions, ReportOptions, TopOptions, LsOptions, ExplainOptions,
                                   OnHost, OnNode, Information, UsageError>;
ParsedCommand parse_command_line(int argc, const char* const* argv, std::span<const std::string> environment);

}  // namespace ddp::launcher
