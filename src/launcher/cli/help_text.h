// The texts of --help and of the manual page ddplaunch(1). Made by walking the options.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/cli/option_set.h"

namespace ddp::launcher {

// At most 80 columns. `name` is how the launcher was called: "ddplaunch", "torchrun", "ddplaunch launch".
std::string help_text(const std::string& name);

// The most common options on one screen, with examples: -h.
std::string short_help_text();

// The same of `ddplaunch store` and `ddplaunch bench`.
std::string store_help_text();
std::string bench_help_text();

// The options of the benchmark itself, and what --help prints above them.
OptionList bench_command_options();
extern const char* const kBenchDescription;

// "-r, --redirects STREAMS"; names that have no short one are indented as if they had.
std::string option_synopsis(const OptionInfo& option);

// Words of `text` in lines of at most `width` columns; a longer word has a line of its own.
std::vector<std::string> wrapped(std::string_view text, std::size_t width);

// The manual page, in troff with the man macros.
std::string man_page();

}  // namespace ddp::launcher
