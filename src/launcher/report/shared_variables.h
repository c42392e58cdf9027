// Selects what a report shows of the environment and of the command line. A report is passed on to other people, so it
// must not contain secrets. The functions are pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::launcher {

// Returns whether a variable or an option of this name may hold a secret, such as "HF_TOKEN" or "--api-key".
bool is_secret(std::string_view name);

// Returns those "NAME=value" lines that matter for a distributed job, in alphabetical order. The value of a secret is
// replaced by "***".
std::vector<std::string> shared_variables(std::span<const std::string> environment);

// Returns the words of a command line. The values of options and variables that may hold a secret are replaced by
// "***".
std::vector<std::string> without_secrets(std::span<const std::string> words);

}  // namespace ddp::launcher
