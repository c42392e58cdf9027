// What a configuration file says, as settings. The text is given, so this is pure.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/cli/option_set.h"

namespace ddp::launcher {

// JSON if the file's name ends in .json, else TOML or INI, as CLI11 reads them. Keys are names of options in either
// spelling; a flag is true, false or a whole number; a list is joined with commas. `path` is for messages only; the
// failure is a sentence for the user with the line where that is known.
base::Result<std::vector<Setting>> settings_of_config(const std::string& path, const std::string& text,
                                                      const OptionList& options);

}  // namespace ddp::launcher
