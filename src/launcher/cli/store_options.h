// What the user asked of `ddplaunch store`, as plain values, and its options. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launcher/cli/command_words.h"
#include "launcher/log/log_line.h"
#include "store/server/store_limits.h"

namespace ddp::launcher {

struct StoreOptions {
  enum class Action { serve, inspect, join };

  Action action = Action::serve;
  std::string host = "127.0.0.1";  // to listen on, or to talk to; a name or an address, without brackets
  std::uint16_t port = 29'500;     // torchrun's; 0: one that the kernel chooses
  std::string port_file;           // "": none
  bool open = false;
  store::StoreLimits limits;
  bool json = false;
  std::string auth_token_file;  // "": none
  LogSettings log;

  friend bool operator==(const StoreOptions&, const StoreOptions&) = default;
};

// Declares the options at `command`, which sets `options` when it parses.
void declare_store_options(OptionSet& command, StoreOptions& options);

// What is wrong with the words together: a sentence for the user.
std::optional<std::string> check_together(const CommandWords& words, StoreOptions& options);

// What is declared, for those who do not parse.
OptionList store_options();

extern const char* const kStoreDescription;
extern const char* const kStoreExitCodes;

}  // namespace ddp::launcher
