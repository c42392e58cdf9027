// Setting: a value that somebody gave to an option, and who did.
#pragma once

#include <string>

#include "launcher/cli/option_table.h"

namespace ddp::launcher {

struct Setting {
  const OptionSpec* option = nullptr;
  std::string value;    // of a flag: "1" or "0"
  std::string subject;  // how messages name it: "--grace=soon", "PET_GRACE=soon", "job.toml:3: grace=soon"
};

}  // namespace ddp::launcher
