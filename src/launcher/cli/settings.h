// From settings to Options: each value is checked, then what the options mean together. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "launcher/cli/options.h"
#include "launcher/cli/setting.h"

namespace ddp::launcher {

// Later settings win over earlier ones of the same option; only what wins is looked at, but all of a repeatable one.
// Options that mean nothing here become Options::warnings. The failure is a sentence for the user. Options about
// ddplaunch itself (--help, --config) are passed over: whoever reads the command line has seen to them.
base::Result<Options> make_options(std::span<const Setting> settings, Manner manner);

}  // namespace ddp::launcher
