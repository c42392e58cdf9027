#include "launcher/process/worker_spec.h"

#include <map>

#include "launcher/plan/worker_command.h"
#include "launcher/plan/worker_variables.h"
#include "wire/worker_env.h"

namespace ddp::launcher {
namespace {

// The true local rank, also with --virtual-local-rank, as under torchrun: files are named by it.
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

std::vector<std::string> environment_of(const LaunchPlan& plan, const WorkerPosition& position) {
  std::map<std::string, std::string> variables = worker_variables(plan, position);
  for (const std::string& line : plan.inherited_environment) {
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos || equals == 0) continue;
    const std::string name = line.substr(0, equals);
    // A launch inside a worker of another launch: that one's failure is none of this job's.
    if (name == wire::env::kLastFailure) continue;
    variables.emplace(name, line.substr(equals + 1));
  }
  std::vector<std::string> lines;
  for (const auto& [name, value] : variables) lines.push_back(name + "=" + value);
  return lines;
}

}  // namespace

WorkerSpec make_worker_spec(const LaunchPlan& plan, const NodeAssignment& assignment, const WorkerContext& context) {
  WorkerPosition position;
  position.local_rank = context.local_rank;
  position.first_rank = assignment.first_rank;
  position.world_size = assignment.world_size;
  position.node_rank = assignment.node_rank;
  position.node_count = assignment.node_count;
  position.master_addr = assignment.master_addr;
  position.master_port = assignment.master_port;
  position.interface = assignment.interface;
  position.error_file = context.error_file;
  position.attempt = context.attempt;
  position.last_failure = context.last_failure;

  WorkerSpec spec;
  spec.rank = assignment.first_rank + context.local_rank;
  spec.attempt = context.attempt;
  spec.program = plan.program;
  spec.arguments = arguments_of(plan, context.local_rank);
  spec.environment = environment_of(plan, position);
  const auto i = static_cast<std::size_t>(context.local_rank);
  if (i < plan.bindings.size()) {
    spec.cpus = plan.bindings[i].cpus;
    spec.memory_nodes = plan.bindings[i].memory_nodes;
  }
  spec.core = plan.core;
  spec.reads_stdin = plan.stdin_local_rank == context.local_rank;
  return spec;
}

}  // namespace ddp::launcher
