// What each worker executes: the program itself, or Python with a script or a module. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/plan/host_facts.h"
#include "launcher/plan/launch_plan.h"

namespace ddp::launcher {

struct WorkerCommand {
  std::string program;                     // path
  std::vector<std::string> arguments;      // argv
  bool local_rank_macro = false;           // see LaunchPlan
  bool local_rank_argument = false;        // insert --local_rank=N …
  std::size_t local_rank_argument_at = 0;  // … before this argument
  std::string what;                        // the script, module or program, as typed
};

// Where Python is looked for: $PYTHON_EXEC, or else the virtual environment's, or else python3 or python from PATH.
std::vector<std::string> interpreter_candidates(const std::vector<std::string>& environment);

// Refuses what could not be executed, with the shell's exit codes, before any process starts.
base::Result<WorkerCommand, PlanFailure> make_worker_command(const Options& options, const HostFacts& facts);

// torchrun's macro in an argument: $local_rank and ${local_rank} become the number, $$ becomes $, all else stays.
std::string substitute_local_rank(const std::string& argument, int local_rank);

}  // namespace ddp::launcher
