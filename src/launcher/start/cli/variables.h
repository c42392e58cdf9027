// Reads options from the environment: PET_* variables and a few others. The functions are pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/start/cli/option_set.h"
#include "launcher/start/cli/options.h"

namespace ddp::launcher {

// Returns "1" for a whole number that is not zero, "0" for zero, and std::nullopt for other text.
std::optional<std::string> parse_whole_flag(const std::string& text);

struct VariableSettings {
  std::vector<Setting> defaults;  // all other settings take precedence
  std::vector<Setting> settings;
  std::vector<std::string> warnings;  // warnings about variables that look like ddplaunch's own and are not
};

// `environment` has lines "NAME=value". The failure is a sentence for the user.
base::Result<VariableSettings> settings_of_variables(std::span<const std::string> environment,
                                                     const OptionList& options, CompatibilityMode mode);

// Returns the variables that have an effect, sorted, as in "PET_NNODES=2, PET_NODE_RANK=1". An option on the command
// line replaces its variable.
std::string used_variables(std::span<const Setting> from_variables, std::span<const Setting> from_words);

}  // namespace ddp::launcher
