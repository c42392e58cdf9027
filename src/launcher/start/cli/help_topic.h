// Answers `ddplaunch help WORDS`.
#pragma once

#include <span>
#include <string>

#include "base/result.h"

namespace ddp::launcher {

// Returns the help on a subcommand ("top"), an option ("max-restarts", "--grace", "-q") or a diagnosis ("DDP-H05",
// "h05"), or otherwise the options whose names and help contain all of the words. Without words, it returns what --help
// prints. The failure is a sentence for the user.
base::Result<std::string> help_on(std::span<const std::string> words);

}  // namespace ddp::launcher
