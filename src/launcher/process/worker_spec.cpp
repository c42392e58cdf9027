#include "launcher/process/worker_spec.h"

#include <map>

#include "wire/worker_env.h"

namespace ddp::launcher {

namespace env = wire::env;

WorkerSpec make_worker_spec(const LaunchPlan& plan, const NodeAssignment& assignment, const WorkerContext& context) {
  const int local_rank = context.local_rank;
  std::map<std::string, std::string> variables;
  for (const std::string& line : plan.inherited_environment) {
    const std::size_t equals = line.find('=');
    if (equals != std::string::npos && equals > 0) variables.emplace(line.substr(0, equals), line.substr(equals + 1));
  }
  const auto set = [&](const char* name, auto value) {
    if constexpr (std::is_integral_v<decltype(value)>) {
      variables[name] = std::to_string(value);
    } else {
      variables[name] = value;
    }
  };
  const auto set_default = [&](const char* name, const std::string& value) { variables.emplace(name, value); };

  const int rank = assignment.first_rank + local_rank;
  set(env::kLocalRank, local_rank);
  set(env::kRank, rank);
  set(env::kWorldSize, assignment.world_size);
  set(env::kLocalWorldSize, plan.workers);
  set(env::kGroupRank, assignment.node_rank);
  set(env::kGroupWorldSize, assignment.node_count);
  set(env::kRoleName, plan.role);
  set(env::kRoleRank, rank);
  set(env::kRoleWorldSize, assignment.world_size);
  set(env::kMasterAddr, assignment.master_addr);
  set(env::kMasterPort, assignment.master_port);
  set(env::kRestartCount, assignment.restart_count);
  set(env::kMaxRestarts, assignment.max_restarts);
  set(env::kRunId, plan.run_id);
  set(env::kUseAgentStore, "True");
  set(env::kErrorFile, context.error_file);
  set_default(env::kSignalsToHandle, "SIGTERM,SIGINT,SIGHUP,SIGQUIT");
  set_default(env::kNcclAsyncErrorHandling, "1");
  if (plan.omp_threads) set(env::kOmpNumThreads, *plan.omp_threads);
  const auto& devices = plan.visible_devices[static_cast<std::size_t>(local_rank)];
  if (devices) set(env::kCudaVisibleDevices, *devices);
  if (!plan.backend.empty()) set(env::kBackend, plan.backend);
  if (plan.quiet) set(env::kQuiet, "1");

  WorkerSpec spec;
  spec.program = plan.program;
  spec.arguments = plan.arguments;
  for (const auto& [name, value] : variables) spec.environment.push_back(name + "=" + value);
  return spec;
}

}  // namespace ddp::launcher
