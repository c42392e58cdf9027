// Declares the options of a job, each of them once.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "launcher/start/cli/option_set.h"
#include "launcher/start/cli/options.h"

namespace ddp::launcher {

// Returns the values that the options have by default.
Options default_options(CompatibilityMode mode);

// Declares the options at `command`, which sets `options` when it parses.
void declare_job_options(OptionSet& command, Options& options);

// Declares options that `ddplaunch store` has as well.
void declare_store_access(OptionSet& command, std::string& token_file, bool& open, store::StoreLimits& limits);
void declare_help(OptionSet& command, const char* help);

// Returns what is wrong with the combination of options. Options without effect become warnings in `options`.
std::optional<std::string> check_together(std::span<const Setting> settings, Options& options);

// Returns the declared options, for code that does not parse.
OptionList job_options();

// --help, the manual page and messages show these texts in addition to the options.
extern const char* const kDescription;
extern const char* const kProgramRule;
extern const char* const kExitCodes;

}  // namespace ddp::launcher
