// Determines what each worker executes: the program itself, or Python with a script or a module. The functions are
// pure.
#pragma once

#include <string>

#include "base/result.h"
#include "launcher/start/facts/node_facts.h"
#include "launcher/start/plan/launch_plan.h"

namespace ddp::launcher {

ProgramKind program_kind(const Options& options);

// Returns which facts make_launch_plan() needs for these options.
FactsWanted facts_wanted(const Options& options);

// Refuses a command that could not be executed, with the shell's exit codes, before any process starts.
base::Result<WorkerCommand, StartFailure> make_worker_command(const Options& options, const NodeFacts& facts);

// Expands torchrun's macros in an argument: $local_rank and ${local_rank} become the number, and $$ becomes $.
std::string substitute_local_rank(const std::string& argument, int local_rank);

}  // namespace ddp::launcher
