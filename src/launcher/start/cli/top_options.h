// Defines the options of `ddplaunch top`, as plain values. The functions are pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "launcher/start/cli/choices.h"
#include "launcher/start/cli/command_words.h"

namespace ddp::launcher {

struct TopOptions {
  std::string job;  // a pid, a run id or the path of a socket; empty for the only job of this user
  bool once = false;
  bool json = false;
  std::chrono::milliseconds interval{500};
  RankOrder order = RankOrder::automatic;
  std::string filter;
  bool no_color = false;

  friend bool operator==(const TopOptions&, const TopOptions&) = default;
};

// Declares the options at `command`, which sets `options` when it parses.
void declare_top_options(OptionSet& command, TopOptions& options);

// Takes the words that are no options. Returns a sentence for the user if there are too many.
std::optional<std::string> check_together(const CommandWords& words, TopOptions& options);

// Returns the declared options, for code that does not parse.
OptionList top_options();

extern const char* const kTopDescription;
extern const char* const kTopExitCodes;

}  // namespace ddp::launcher
