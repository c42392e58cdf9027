// Makes completion scripts for shells from the declared options.
#pragma once

#include <optional>
#include <string>

namespace ddp::launcher {

// Returns the script for "bash", "zsh" or "fish", or std::nullopt for another shell. Options complete to their names,
// values to their choices or to files. A subcommand has its own options. The first other word is the program. After it,
// files are offered, and in fish options as well.
std::optional<std::string> completion_script(const std::string& shell);

}  // namespace ddp::launcher
