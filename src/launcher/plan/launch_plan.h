// LaunchPlan: everything that is decided before the first process starts, as a value.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/cli/options.h"
#include "launcher/plan/host_facts.h"

namespace ddp::launcher {

struct LaunchPlan {
  std::string host_name;
  std::string program;                 // resolved path
  std::vector<std::string> arguments;  // as typed, the program first
  int workers = 1;
  std::vector<std::optional<std::string>> visible_devices;  // by local rank; nothing: left alone
  std::string backend;                                      // empty: the workers choose
  std::optional<int> omp_threads;                           // set OMP_NUM_THREADS, unless the user did
  std::string run_id;
  std::string role;
  std::chrono::milliseconds grace{0};
  bool quiet = false;
  std::vector<std::string> inherited_environment;  // "NAME=value"
};

// Why there is no plan, and the exit code that says so: 2 usage, 126 not executable, 127 not found.
struct PlanFailure {
  int exit_code;
  std::string message;
};

base::Result<LaunchPlan, PlanFailure> make_launch_plan(const Options& options, const HostFacts& facts);

// What --dry-run prints.
std::string describe(const LaunchPlan& plan);

}  // namespace ddp::launcher
