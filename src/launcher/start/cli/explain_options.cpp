#include "launcher/start/cli/explain_options.h"

#include <algorithm>

#include "launcher/start/cli/job_options.h"

namespace ddp::launcher {

const char* const kExplainDescription =
    "Reads the logs of a job that failed, and says which rank failed first, why, and what to do. The logs may be of "
    "torchrun, srun, mpirun, Kubernetes or ddplaunch, with the lines of all ranks in one file or one file per rank. "
    "Dumps of PyTorch's flight recorder, event logs and hang traces are read, too. A directory stands for all files in "
    "it, and - for the standard input.";

const char* const kExplainExitCodes =
    "ddplaunch explain exits with 0 if the cause is known for certain, and with 1 if it is not. Other codes: 2: wrong "
    "usage; 125: a file cannot be read.";

void declare_explain_options(OptionSet& c, ExplainOptions& o) {
  c.flag("--json", o.json, "Print the explanation as one JSON document.");
  declare_help(c, "Print this text and exit.");
}

std::optional<std::string> check_together(const CommandWords& words, ExplainOptions& options) {
  if (words.program.empty()) {
    return "no log given. Usage: ddplaunch explain FILE|DIR|-. For the logs of a running command: COMMAND 2>&1 | "
           "ddplaunch explain -";
  }
  if (std::ranges::find(words.program, "") != words.program.end()) {
    return "the name of a log is empty. Name a file, a directory or -";
  }
  options.inputs = words.program;
  return std::nullopt;
}

OptionList explain_options() {
  ExplainOptions options;
  OptionSet command(false);
  declare_explain_options(command, options);
  return command.options();
}

}  // namespace ddp::launcher
