// Which words of a command line are options of ours, and where the program begins.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/cli/options.h"
#include "launcher/cli/setting.h"

namespace ddp::launcher {

struct CommandWords {
  std::vector<Setting> settings;     // in the order given
  std::vector<std::string> program;  // verbatim, without a `--` before it
  bool help = false;                 // --help was met; what follows it has not been looked at
};

// `words` are those after the name of the launcher and a subcommand. In the manners of torchrun an option may be cut
// short as long as it cannot be mistaken: options of torchrun itself come first, and both spellings are one option.
// The failure is a sentence for the user.
base::Result<CommandWords> read_words(std::span<const std::string> words, Manner manner,
                                      const OptionTable& table = option_table());

// "--grace" for "--grcae", "grace" for "grcae"; the nearest name in the user's own spelling of dashes, or nothing.
std::optional<std::string> nearest_option(const std::string& word, const OptionTable& table = option_table());

}  // namespace ddp::launcher
