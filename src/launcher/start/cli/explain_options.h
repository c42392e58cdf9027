// Defines the options of `ddplaunch explain`, as plain values. The functions are pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/start/cli/command_words.h"
#include "launcher/start/cli/option_set.h"

namespace ddp::launcher {

struct ExplainOptions {
  std::vector<std::string> inputs;  // files and directories; "-" for the standard input
  bool json = false;

  friend bool operator==(const ExplainOptions&, const ExplainOptions&) = default;
};

// Declares the options at `command`, which sets `options` when it parses.
void declare_explain_options(OptionSet& command, ExplainOptions& options);

// Takes the inputs from the words. Returns a sentence for the user if there are none.
std::optional<std::string> check_together(const CommandWords& words, ExplainOptions& options);

// Returns the declared options, for code that does not parse.
OptionList explain_options();

extern const char* const kExplainDescription;
extern const char* const kExplainExitCodes;

}  // namespace ddp::launcher
