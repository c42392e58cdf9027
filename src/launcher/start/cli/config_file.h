// Turns the content of a configuration file into settings. It is pure: the text is an argument.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/start/cli/option_set.h"

namespace ddp::launcher {

// Reads JSON if the file's name ends in .json, and otherwise TOML or INI, as CLI11 reads them. Keys are names of
// options in either spelling. A flag is true, false or a whole number; a list is joined with commas. `path` is for
// messages only. The failure is a sentence for the user, with the line if it is known.
base::Result<std::vector<Setting>> settings_of_config(const std::string& path, const std::string& text,
                                                      const OptionList& options);

}  // namespace ddp::launcher
