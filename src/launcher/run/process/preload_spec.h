// Determines the process from which workers are forked. It is pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/start/plan/launch_plan.h"

namespace ddp::launcher {

struct PreloadSpec {
  std::string refused;                   // why there is none, without a full stop; empty if there is one
  std::vector<std::string> probe;        // starts the same Python without a program
  std::vector<std::string> command;      // that of a worker
  std::vector<std::string> environment;  // "NAME=value" lines: those that do not depend on rank, node and attempt
  std::string modules;                   // value of wire::env::kPreload, which the environment lacks
};

PreloadSpec make_preload_spec(const LaunchPlan& plan);

}  // namespace ddp::launcher
