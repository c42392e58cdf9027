// Defines the options of `ddplaunch ls`, as plain values. The functions are pure.
#pragma once

#include <optional>
#include <string>

#include "launcher/start/cli/command_words.h"

namespace ddp::launcher {

struct LsOptions {
  bool json = false;

  friend bool operator==(const LsOptions&, const LsOptions&) = default;
};

// Declares the options at `command`, which sets `options` when it parses.
void declare_ls_options(OptionSet& command, LsOptions& options);

// Returns a sentence for the user if there are words that are no options.
std::optional<std::string> check_together(const CommandWords& words, LsOptions& options);

// Returns the declared options, for code that does not parse.
OptionList ls_options();

extern const char* const kLsDescription;
extern const char* const kLsExitCodes;

}  // namespace ddp::launcher
