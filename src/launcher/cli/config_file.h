// What a configuration file says, as settings. The text is given, so this is pure; who parses TOML is given as well.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/cli/setting.h"

namespace ddp::launcher {

// One line of a file. Several values come from a list.
struct ConfigEntry {
  std::string key;
  std::vector<std::string> values;
  bool in_section = false;
};

using TomlReader = std::function<base::Result<std::vector<ConfigEntry>>(const std::string& text)>;

// JSON if the file's name ends in .json, else TOML or INI. Keys are names of options in either spelling; a flag is
// true, false or a whole number; a list is joined with commas. `path` is for messages only; the failure is a sentence
// for the user with the line where that is known.
base::Result<std::vector<Setting>> settings_of_config(const std::string& path, const std::string& text,
                                                      const TomlReader& read_toml);

}  // namespace ddp::launcher
