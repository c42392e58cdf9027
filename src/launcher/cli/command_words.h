// The pass before CLI11: what a command line means in plain words, and where the program begins.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/cli/option_set.h"
#include "launcher/cli/options.h"

namespace ddp::launcher {

struct CommandWords {
  std::vector<Setting> settings;     // in the order given
  std::vector<std::string> program;  // what is no option, verbatim, without a `--` before it
  bool help = false;                 // --help was met; what follows it has not been looked at
};

// `words` are those after the name of the launcher and a subcommand. In the compatibility mode of torchrun an option
// may be cut short as long as it cannot be mistaken: options of torchrun itself come first, and both spellings are one
// option. `options_follow`: options may stand behind other words, and behind `--`; else all words from the first other
// one on are the program. The failure is a sentence for the user.
base::Result<CommandWords> read_words(std::span<const std::string> words, const OptionList& options,
                                      CompatibilityMode mode = CompatibilityMode::native, bool options_follow = false);

}  // namespace ddp::launcher
