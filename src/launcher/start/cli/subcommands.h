// Lists the words that may come first on the command line. --help, the manual page, the reference page and the
// completions use this table.
#pragma once

#include <span>
#include <string_view>

#include "launcher/start/cli/option_set.h"

namespace ddp::launcher {

struct Subcommand {
  const char* name;
  const char* help;         // one sentence
  const char* usage;        // without "Usage: "; may have several lines
  const char* description;  // null if its help is that of a job; the next members are then null, too
  OptionList (*options)();
  const char* exit_codes;  // null if there are none of its own
  const char* example;
};

std::span<const Subcommand> subcommands();

// Returns null for any other word.
const Subcommand* find_subcommand(std::string_view name);

}  // namespace ddp::launcher
