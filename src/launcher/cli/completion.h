// Completion scripts for shells, made by walking the options.
#pragma once

#include <optional>
#include <string>

namespace ddp::launcher {

// For "bash", "zsh" or "fish"; nothing for another shell. Options complete to their names, values to their choices or
// to files. `store` as the first word has options of its own. The first other word is the program: from there
// on files are offered, and in fish options as well.
std::optional<std::string> completion_script(const std::string& shell);

}  // namespace ddp::launcher
