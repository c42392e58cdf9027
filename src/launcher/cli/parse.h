// From argv to Options. The only file pair that knows CLI11.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "launcher/cli/options.h"

namespace ddp::launcher {

// --help or --version: print this and leave with 0.
struct Information {
  std::string text;
};

// The user's mistake: print this and leave with 2. Says what to do.
struct UsageError {
  std::string message;
};

std::variant<Options, Information, UsageError> parse_command_line(int argc, const char* const* argv);

}  // namespace ddp::launcher
