// Builds the texts of --help, of the manual page ddplaunch(1) and of the reference page from the declared options.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/cli/option_set.h"

namespace ddp::launcher {

// The words that may come first on the command line, for the reference page and the completions.
struct Subcommand {
  const char* name;
  const char* help;
};

inline constexpr std::array kSubcommands = {
    Subcommand{"run", "Start a job; the same as without a subcommand."},
    Subcommand{"launch", "Start a job as python -m torch.distributed.launch does."},
    Subcommand{"top", "Show a running job."},
    Subcommand{"store", "Serve a rendezvous store without a job, or inspect one."},
    Subcommand{"report", "Make a report of a run from its event log."},
    Subcommand{"bench", "Measure collectives between the workers."},
    Subcommand{"help", "Print all options."},
};

// The text has at most 80 columns. `name` is how the launcher was called: "ddplaunch", "torchrun", "ddplaunch launch".
std::string help_text(const std::string& name);

// Returns the most common options on one screen, with examples, for -h.
std::string short_help_text();

// These functions return the same for the subcommands.
std::string store_help_text();
std::string report_help_text();
std::string top_help_text();
std::string bench_help_text();

// Returns the options of the benchmark itself. --help prints kBenchDescription above them.
OptionList bench_command_options();
extern const char* const kBenchDescription;

// Returns "-r, --redirects STREAMS". Names without a short one are indented as if they had one.
std::string option_synopsis(const OptionInfo& option);

// Returns the words of `text` in lines of at most `width` columns. A longer word gets a separate line.
std::vector<std::string> wrapped(std::string_view text, std::size_t width);

// Returns the manual page, in troff with the man macros.
std::string man_page();

// Returns the reference page of the command line, in Markdown: docs/reference/cli.md.
std::string command_page();

}  // namespace ddp::launcher
