// What the user asked of `ddplaunch store`, as plain values, and the table of its options. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "launcher/cli/command_words.h"
#include "launcher/cli/option_table.h"
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

  friend bool operator==(const StoreOptions&, const StoreOptions&) = default;
};

// Options that a job has as well are that table's entries, and their values are read alike.
const OptionTable& store_option_table();

// The failure is a sentence for the user.
base::Result<StoreOptions> make_store_options(const CommandWords& words);

extern const char* const kStoreDescription;
extern const char* const kStoreExitCodes;

}  // namespace ddp::launcher
