// Defines the options of `ddplaunch store`, as plain values. The functions are pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launcher/start/cli/command_words.h"
#include "launcher/start/log/log_line.h"
#include "store/server/store_limits.h"

namespace ddp::launcher {

struct StoreOptions {
  enum class Action { serve, inspect, join };

  Action action = Action::serve;
  std::string host = "127.0.0.1";  // name or address without brackets, to listen on or to connect to
  std::uint16_t port = 29'500;     // torchrun's port; 0 if the kernel chooses one
  std::string port_file;           // empty if there is none
  bool open = false;
  store::StoreLimits limits;
  bool json = false;
  std::string auth_token_file;  // empty if there is none
  LogSettings log;

  friend bool operator==(const StoreOptions&, const StoreOptions&) = default;
};

// Declares the options at `command`, which sets `options` when it parses.
void declare_store_options(OptionSet& command, StoreOptions& options);

// Returns a sentence for the user if the words contradict each other.
std::optional<std::string> check_together(const CommandWords& words, StoreOptions& options);

// Returns the declared options, for code that does not parse.
OptionList store_options();

extern const char* const kStoreDescription;
extern const char* const kStoreExitCodes;

}  // namespace ddp::launcher
