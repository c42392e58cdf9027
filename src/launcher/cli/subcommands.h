// Lists the words that may come first on the command line, for the reference page and the completions.
#pragma once

#include <array>

namespace ddp::launcher {

struct Subcommand {
  const char* name;
  const char* help;
};

inline constexpr std::array kSubcommands = {
    Subcommand{"run", "Start a job; the same as without a subcommand."},
    Subcommand{"launch", "Start a job as python -m torch.distributed.launch does."},
    Subcommand{"top", "Show a running job."},
    Subcommand{"store", "Serve a rendezvous store without a job, or inspect one."},
    Subcommand{"report", "Make a report of a run from its event log."},
    Subcommand{"bench", "Measure collectives between the workers."},
    Subcommand{"help", "Print all options."},
};

}  // namespace ddp::launcher
