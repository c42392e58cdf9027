// Runs `ddplaunch doctor`.
#pragma once

#include <functional>
#include <string>

#include "launcher/start/cli/subcommand_options.h"

namespace ddp::launcher::doctor {

// Checks this node, prints the findings, and returns the exit code.
int run_doctor_command(const DoctorOptions& options, const std::function<int(const std::string&)>& print);

}  // namespace ddp::launcher::doctor
