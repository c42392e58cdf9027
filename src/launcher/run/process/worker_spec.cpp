#include "launcher/run/process/worker_spec.h"

#include <map>

#include "base/signals.h"
#include "launcher/start/plan/worker_command.h"
#include "wire/worker_env.h"

namespace ddp::launcher {
namespace {

// Uses the true local rank, also with --virtual-local-rank, as torchrun does: files are named by it.
std::vector<std::string> arguments_of(const LaunchPlan& plan, int local_rank) {
  std::vector<std::string> arguments = plan.arguments;
  if (plan.local_rank_macro) {
    for (std::size_t i = 1; i < arguments.size(); ++i) arguments[i] = substitute_local_rank(arguments[i], local_rank);
  }
  if (plan.local_rank_argument) {
    arguments.insert(arguments.begin() + static_cast<std::ptrdiff_t>(plan.local_rank_argument_at),
                     "--local_rank=" + std::to_string(local_rank));
  }
  return arguments;
}

std::vector<std::string> environment_of(const LaunchPlan& plan, std::map<std::string, std::string> variables) {
  for (const std::string& line : plan.inherited_environment) {
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos || equals == 0) continue;
    const std::string name = line.substr(0, equals);
    // If this launcher runs inside a worker of another launcher, the failure and the memory of the other job are no
    // part of this one.
    if (name == wire::env::kLastFailure || name == wire::env::kStateMemory) continue;
    variables.emplace(name, line.substr(equals + 1));
  }
  std::vector<std::string> lines;
  for (const auto& [name, value] : variables) lines.push_back(name + "=" + value);
  return lines;
}

}  // namespace

WorkerSpec make_worker_spec(const LaunchPlan& plan, const Placement& placement, const WorkerContext& worker) {
  WorkerSpec spec;
  spec.rank = placement.first_rank + worker.local_rank;
  spec.attempt = placement.attempt;
  spec.program = plan.program;
  spec.arguments = arguments_of(plan, worker.local_rank);
  spec.environment = environment_of(plan, worker_variables(plan, placement, worker));
  const auto i = static_cast<std::size_t>(worker.local_rank);
  if (i < plan.bindings.size()) {
    spec.cpus = plan.bindings[i].cpus;
    spec.memory_nodes = plan.bindings[i].memory_nodes;
  }
  spec.core = plan.core;
  // A scheduler may send such a signal to all processes of a step, and its default action would terminate a worker
  // before it has saved. Signals that end a job keep their default action.
  for (const int signal : plan.save_signals) {
    const bool ends = base::contains(plan.ending_signals, signal);
    if (plan.save_grace.count() > 0 && !ends) spec.ignored_signals.push_back(signal);
  }
  spec.recording = plan.recording;
  spec.reads_stdin = plan.stdin_local_rank == worker.local_rank;
  return spec;
}

}  // namespace ddp::launcher
