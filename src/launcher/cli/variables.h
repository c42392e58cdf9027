// What the environment says about options: PET_* variables and a few others. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/cli/option_set.h"
#include "launcher/cli/options.h"

namespace ddp::launcher {

// "1" for a whole number that is not zero, "0" for zero; nothing for other text.
std::optional<std::string> parse_whole_flag(const std::string& text);

struct VariableSettings {
  std::vector<Setting> defaults;  // give way to everything else
  std::vector<Setting> settings;
  std::vector<std::string> warnings;  // variables that look like ours and are not
};

// `environment` has lines "NAME=value". The failure is a sentence for the user.
base::Result<VariableSettings> settings_of_variables(std::span<const std::string> environment,
                                                     const OptionList& options, CompatibilityMode mode);

// Those that count, sorted, as "PET_NNODES=2, PET_NODE_RANK=1": an option of the command line takes a variable's place.
std::string used_variables(std::span<const Setting> from_variables, std::span<const Setting> from_words);

}  // namespace ddp::launcher
