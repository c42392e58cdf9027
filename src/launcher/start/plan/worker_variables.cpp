#include "launcher/start/plan/worker_variables.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

#include "base/hash.h"
#include "base/signals.h"
#include "base/text.h"
#include "launcher/limits.h"
#include "launcher/start/facts/node_facts.h"
#include "wire/record_ring_layout.h"
#include "wire/state_memory_layout.h"
#include "wire/status_page_layout.h"
#include "wire/worker_env.h"

namespace ddp::launcher {
namespace {

namespace env = wire::env;

constexpr const char* kMostCudaConnections = "32";  // the most that CUDA accepts

std::string signal_names(const std::vector<int>& signals) {
  std::vector<std::string> names;
  for (const int signal : signals) names.push_back(base::signal_name(signal));
  return base::join(names, ",");
}

// Returns the first line of a text, because a variable with line breaks makes the output of `env` ambiguous.
std::string one_line(const std::string& text) {
  return text.substr(0, text.find_first_of("\r\n"));
}

// Returns the address at which NCCL reports the state of this job's ranks, for a dump. It is a loopback address that
// only this job uses, so that other jobs on this node do not answer. No free port has to be found.
std::string ras_address(const LaunchPlan& plan, const Placement& placement) {
  base::Fnv1a64 hash;
  hash.update(plan.run_id + "\n" + placement.master_addr + "\n" + std::to_string(placement.master_port));
  const auto part = [value = hash.value()](int shift) { return std::to_string(1 + (value >> shift) % 254); };
  return "127." + part(40) + "." + part(48) + "." + part(56) + ":28028";
}

std::string json_list(const std::vector<int>& numbers) {
  std::vector<std::string> texts;
  for (const int number : numbers) texts.push_back(std::to_string(number));
  return "[" + base::join(texts, ",") + "]";
}

// Returns JSON that says where the worker's state is to be kept, and where the one is with which it begins.
std::string state_memory_of(const LaunchPlan& plan, const Placement& placement, int local_rank) {
  const wire::RestorePlan& restore = placement.restore;
  std::string json = "{";
  const auto number = [&](const char* name, std::int64_t value) {
    json += std::string(json.size() > 1 ? "," : "") + '"' + name + "\":" + std::to_string(value);
  };
  number("fd", keeps_states(plan) ? wire::kStateDescriptor : -1);
  number("area", local_rank);
  number("areas", plan.workers);
  number("rank", placement.first_rank + local_rank);
  number("world", placement.world_size);
  number("attempt", placement.attempt);
  number("may_restart", placement.may_restart || !plan.image_dir.empty() ? 1 : 0);
  if (placement.image_cost > 0) number("image_cost", std::llround(1e6 * placement.image_cost));
  if (static_cast<std::size_t>(local_rank) >= restore.ranks.size()) return json + "}";
  number("step", restore.step);
  const auto place = [&](const char* name, const wire::StatePlace& where) {
    if (where.area >= 0) json += std::string(",\"") + name + "\":" + json_list({where.area, where.place});
  };
  if (!restore.image.empty()) {
    return json + ",\"image\":" +
           nlohmann::json(plan.image_dir + "/" + restore.image)
               .dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) +
           "}";
  }
  const wire::RankRestore& rank = restore.ranks[static_cast<std::size_t>(local_rank)];
  place("own", rank.own);
  place("shared", rank.shared);
  place("whole", rank.whole);
  std::vector<std::string> transfers;
  for (const wire::StateTransfer& one : restore.transfers) {
    transfers.push_back(json_list(
        {one.from, one.to, one.from_place.area, one.from_place.place, one.to_place.area, one.to_place.place}));
  }
  return json + ",\"transfers\":[" + base::join(transfers, ",") + "]}";
}

std::string python_path(const LaunchPlan& plan) {
  // The hook comes before the user's folders, and the modules after them.
  std::vector<std::string> folders = {
      plan.python_hook, find_variable(plan.inherited_environment, env::kPythonPath).value_or(""), plan.python_modules};
  std::erase(folders, "");
  return base::join(folders, ":");
}

// A variable that not every worker gets.
struct Extra {
  const char* name;
  bool is_given;
  std::string value;
  bool yields = false;  // to a value that the user has set
};

std::vector<Extra> extra_variables(const LaunchPlan& plan, const Placement& placement, const WorkerContext& worker) {
  const auto& devices = plan.visible_devices.at(static_cast<std::size_t>(worker.local_rank));
  const bool has_gpus = std::ranges::any_of(plan.devices, [](const auto& gpu) { return gpu.has_value(); });
  // A GPU has 8 hardware queues by default, and further streams share them. A kernel that waits for another rank then
  // blocks what is queued behind it, which can be what that rank waits for. Python programs get no value, because
  // torchrun sets none and frameworks choose their own.
  const bool wants_queues = (has_gpus || plan.has_uncounted_gpus) && plan.is_native_program;
  const bool has_python_path = !plan.python_hook.empty() || !plan.python_modules.empty();
  // With images, all ranks agree on their interval. If the others go on from a kept state, this rank must, too.
  const bool has_states = keeps_states(plan) || placement.image_cost > 0 || !placement.restore.ranks.empty();
  const bool ends_hangs = !plan.hang.is_off() && plan.hang.action == HangAction::kill;
  return {
      // With 1, PyTorch ends the kernels of a broken collective, and the GPU goes on with what they leave. Then its
      // state is that of no step.
      {env::kNcclAsyncErrorHandling, true, keeps_states(plan) ? "3" : "1", true},
      {env::kNcclRasAddress, has_gpus, ras_address(plan, placement), true},
      {env::kNcclProfiler, !plan.nccl_profiler.empty(), plan.nccl_profiler},
      {env::kCudaConnections, wants_queues, kMostCudaConnections, true},
      {env::kOmpNumThreads, plan.omp_threads.has_value(), std::to_string(plan.omp_threads.value_or(0))},
      {env::kCudaVisibleDevices, devices.has_value(), devices.value_or("")},
      {env::kBackend, !plan.backend.empty(), plan.backend},
      {env::kInject, !plan.faults.empty(), base::join(plan.faults, " ")},
      {env::kWatched, true, ends_hangs ? "1" : "0"},
      {env::kQuiet, plan.log.level > LogLevel::info, "1"},
      {env::kPythonUnbuffered, plan.python_unbuffered, "1", true},
      {env::kTorchFile, !plan.python_hook.empty(), worker.torch_file},
      {env::kPythonPath, has_python_path, python_path(plan)},
      {env::kStateMemory, has_states, state_memory_of(plan, placement, worker.local_rank)},
      {env::kLastFailure, placement.attempt > 0, one_line(worker.last_failure)},
  };
}

}  // namespace

std::vector<std::string> interface_variables(const LaunchPlan& plan, const std::string& interface) {
  std::vector<std::string> names;
  for (const char* name : {wire::env::kGlooInterface, wire::env::kNcclInterface}) {
    const bool is_given = find_variable(plan.inherited_environment, name).has_value();
    if (!interface.empty() && !is_given) names.emplace_back(name);
  }
  return names;
}

bool keeps_states(const LaunchPlan& plan) {
  return (plan.max_restarts > 0 || !plan.image_dir.empty()) && plan.workers <= limits::kStateWorkers;
}

std::map<std::string, std::string> worker_variables(const LaunchPlan& plan, const Placement& placement,
                                                    const WorkerContext& worker) {
  const int rank = placement.first_rank + worker.local_rank;
  const std::string global_rank = std::to_string(rank);
  const std::string world_size = std::to_string(placement.world_size);
  std::map<std::string, std::string> variables = {
      {env::kLocalRank, std::to_string(plan.virtual_local_rank ? 0 : worker.local_rank)},
      {env::kRank, global_rank},
      {env::kWorldSize, world_size},
      {env::kLocalWorldSize, std::to_string(plan.workers)},
      {env::kGroupRank, std::to_string(placement.node_rank)},
      {env::kGroupWorldSize, std::to_string(placement.node_count)},
      {env::kRoleName, plan.role},
      {env::kRoleRank, global_rank},
      {env::kRoleWorldSize, world_size},
      {env::kMasterAddr, placement.master_addr},
      {env::kMasterPort, std::to_string(placement.master_port)},
      {env::kRestartCount, std::to_string(placement.attempt)},
      {env::kMaxRestarts, std::to_string(plan.max_restarts)},
      {env::kRunId, plan.run_id},
      {env::kUseAgentStore, "True"},
      {env::kErrorFile, plan.files.kind == RunFiles::Kind::none ? "" : worker.error_file},
      {env::kSignalsToHandle, signal_names(plan.ending_signals)},
      {env::kAttempt, std::to_string(placement.attempt)},
      {env::kStatusPage, std::to_string(wire::kPageDescriptor)},
      {env::kRecordRing, std::to_string(wire::kRingDescriptor)},
  };
  for (const std::string& name : interface_variables(plan, placement.interface)) {
    // NCCL takes a name for the beginning of a name: eth1 would mean eth10, too. Gloo takes it as it is.
    variables.emplace(name, (name == env::kNcclInterface ? "=" : "") + placement.interface);
  }
  for (const Extra& extra : extra_variables(plan, placement, worker)) {
    const bool is_own = extra.yields && find_variable(plan.inherited_environment, extra.name);
    if (extra.is_given && !is_own) variables.emplace(extra.name, extra.value);
  }
  return variables;
}

}  // namespace ddp::launcher
