// This is the pass before CLI11. It reads the words of a command line, and determines where the program begins.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/start/cli/option_set.h"
#include "launcher/start/cli/options.h"

namespace ddp::launcher {

struct CommandWords {
  std::vector<Setting> settings;     // settings in the order in which they are given
  std::vector<std::string> program;  // words that are no options, verbatim, without a `--` before them
  bool help = false;                 // --help was found, and the words after it were not read
};

// `words` are the words after the name of the launcher and a subcommand. In compatibility mode, an option may be
// abbreviated as long as it is unambiguous. Options of torchrun itself take precedence, and both spellings are one
// option. If `options_follow`, options may come after other words, and after `--`. Otherwise the program consists of
// all words from the first other word on. The failure is a sentence for the user.
base::Result<CommandWords> read_words(std::span<const std::string> words, const OptionList& options,
                                      CompatibilityMode mode = CompatibilityMode::native, bool options_follow = false);

}  // namespace ddp::launcher
