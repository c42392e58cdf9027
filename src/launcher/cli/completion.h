// Completion scripts for shells, made from the option table.
#pragma once

#include <optional>
#include <string>

namespace ddp::launcher {

// For "bash", "zsh" or "fish"; nothing for another shell. Options complete to their names, values to their choices or
// to files; the first other word is the program, and from there on files are offered.
std::optional<std::string> completion_script(const std::string& shell);

}  // namespace ddp::launcher
