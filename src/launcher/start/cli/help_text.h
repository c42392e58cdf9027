// Builds the texts of --help and of the reference page from the declared options.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/start/cli/option_set.h"
#include "launcher/start/cli/subcommands.h"

namespace ddp::launcher {

// The text has at most 80 columns. `name` is how the launcher was called: "ddplaunch", "torchrun", "ddplaunch launch".
std::string help_text(const std::string& name);

// Returns the most common options on one screen, with examples, for -h.
std::string short_help_text();

// Returns what `ddplaunch NAME --help` prints.
std::string subcommand_help(const Subcommand& command);

// Returns the entry of an option in --help.
std::string option_lines(const OptionInfo& option);

// Returns "-r, --redirects STREAMS". Names without a short one are indented as if they had one.
std::string option_synopsis(const OptionInfo& option);

// Returns the words of `text` in lines of at most `width` columns. A longer word gets a separate line.
std::vector<std::string> wrapped(std::string_view text, std::size_t width);

// Returns the reference page of the command line, in Markdown: docs/reference/cli.md.
std::string command_page();

}  // namespace ddp::launcher
