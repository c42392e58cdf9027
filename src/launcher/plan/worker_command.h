// What each worker executes: the program itself, or Python with a script or a module. Pure functions.
#pragma once

#include <string>

#include "base/result.h"
#include "launcher/facts/node_facts.h"
#include "launcher/plan/launch_plan.h"

namespace ddp::launcher {

ProgramKind program_kind(const Options& options);

// What make_launch_plan() must know for these options.
FactsWanted facts_wanted(const Options& options);

// Refuses what could not be executed, with the shell's exit codes, before any process starts.
base::Result<WorkerCommand, StartFailure> make_worker_command(const Options& options, const NodeFacts& facts);

// torchrun's macro in an argument: $local_rank and ${local_rank} become the number, $$ becomes $, all else stays.
std::string substitute_local_rank(const std::string& argument, int local_rank);

}  // namespace ddp::launcher
