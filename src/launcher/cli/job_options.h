// The options of a job, each declared once.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "launcher/cli/option_set.h"
#include "launcher/cli/options.h"

namespace ddp::launcher {

// What the options are where nothing says otherwise.
Options default_options(CompatibilityMode mode);

// Declares the options at `command`, which sets `options` when it parses.
void declare_job_options(OptionSet& command, Options& options);

// Those that `ddplaunch store` has as well.
void declare_store_access(OptionSet& command, std::string& token_file, bool& open, store::StoreLimits& limits);
void declare_help(OptionSet& command, const char* help);

// What is wrong with the options together. What means nothing here becomes a warning in `options`.
std::optional<std::string> check_together(std::span<const Setting> settings, Options& options);

// What is declared, for those who do not parse.
OptionList job_options();

// What --help, the manual page and the messages say besides the options.
extern const char* const kDescription;
extern const char* const kProgramRule;
extern const char* const kExitCodes;

}  // namespace ddp::launcher
