// Declares the options that show a job while it runs, or afterwards.
#pragma once

#include "launcher/start/cli/option_set.h"
#include "launcher/start/cli/options.h"

namespace ddp::launcher {

// Declares --live, --progress-line, --report, --trace and --record at `command`, which sets `wishes` when it parses.
void declare_view_options(OptionSet& command, JobWishes& wishes);

}  // namespace ddp::launcher
