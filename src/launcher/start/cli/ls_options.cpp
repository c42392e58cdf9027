#include "launcher/start/cli/ls_options.h"

#include "launcher/start/cli/job_options.h"

namespace ddp::launcher {

const char* const kLsDescription =
    "Lists the running jobs of this user on this node, which ddplaunch top can show: the process id of the ddplaunch, "
    "the name of the run, the ranks and nodes, the time since the start, the state, and the program. The state is "
    "starting, running or stalled, or says why the ddplaunch does not show its job.";

const char* const kLsExitCodes =
    "ddplaunch ls exits with 0, also if no job is running. Other codes: 2: wrong usage; 125: DDP_SOCKET_DIR cannot be "
    "used.";

void declare_ls_options(OptionSet& c, LsOptions& o) {
  c.flag("--json", o.json, "Print the jobs as one JSON document on one line.");
  declare_help(c, "Print this text and exit.");
}

std::optional<std::string> check_together(const CommandWords& words, LsOptions& /*options*/) {
  if (words.program.empty()) return std::nullopt;
  return "ddplaunch ls lists all jobs. Remove '" + words.program.front() +
         "'. To start a program named ls, write ./ls or its path.";
}

OptionList ls_options() {
  LsOptions options;
  OptionSet command(false);
  declare_ls_options(command, options);
  return command.options();
}

}  // namespace ddp::launcher
