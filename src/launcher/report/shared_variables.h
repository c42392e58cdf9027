// Selects what a report shows of the environment. A report is passed on to other people, so it must not contain
// secrets. The function is pure.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace ddp::launcher {

// Returns those "NAME=value" lines that matter for a distributed job, in alphabetical order. Secrets
// are hidden (base/secrets.h).
std::vector<std::string> shared_variables(std::span<const std::string> environment);

}  // namespace ddp::launcher
