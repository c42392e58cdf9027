#include "launcher/plan/launch_plan.h"

#include <algorithm>

#include "base/exit_code.h"
#include "base/limits.h"
#include "base/text.h"
#include "launcher/plan/device_binding.h"
#include "wire/worker_env.h"

namespace ddp::launcher {

using base::kExitNotExecutable;
using base::kExitNotFound;
using base::kExitUsage;

namespace {

base::Result<int, PlanFailure> count_workers(const std::string& asked, int gpus, int cpus) {
  if (asked.empty() || asked == "auto") {
    if (gpus > 0) return gpus;
    return asked.empty() ? 1 : cpus;
  }
  if (asked == "cpu") return cpus;
  if (asked == "gpu") {
    if (gpus > 0) return gpus;
    return PlanFailure{kExitUsage, "--nproc-per-node=gpu: no GPU is visible here. Use a number, auto or cpu."};
  }
  const auto number = base::parse_integer(asked, 1, limits::kWorkersPerNode);
  if (number) return static_cast<int>(*number);
  return PlanFailure{kExitUsage, "--nproc-per-node=" + asked + " is not a number from 1 to " +
                                     std::to_string(limits::kWorkersPerNode) + ", auto, gpu or cpu."};
}

std::optional<PlanFailure> check_program(const std::string& name, const ProgramFacts& program) {
  const std::string start = "cannot start " + name + ": ";
  if (!program.found) {
    const std::string where = name.find('/') == std::string::npos ? "not found in PATH" : "no such file";
    return PlanFailure{
        kExitNotFound,
        start + where + "." + (program.suggestion.empty() ? "" : " Did you mean " + program.suggestion + "?")};
  }
  if (program.is_directory) return PlanFailure{kExitNotExecutable, start + "it is a directory."};
  if (program.executable) return std::nullopt;
  const bool python = name.ends_with(".py");
  return PlanFailure{
      kExitNotExecutable,
      start + "not executable. " + (python ? "Use ddplaunch … python3 -u " + name : "Try chmod +x " + name) + "."};
}

}  // namespace

base::Result<LaunchPlan, PlanFailure> make_launch_plan(const Options& options, const HostFacts& facts) {
  const auto inherited = [&](const char* name) { return find_variable(facts.environment, name); };
  const std::vector<std::string> gpus = visible_gpus(inherited(wire::env::kCudaVisibleDevices), facts.gpu_count);
  const auto workers = count_workers(options.nproc_per_node, static_cast<int>(gpus.size()), facts.cpu_count);
  if (!workers) return workers.error();

  auto devices = bind_devices({workers.value(), gpus, options.device_visibility != "all", options.oversubscribe});
  // Without --backend=nccl a job on more workers than GPUs may be a CPU job; but then it should say so.
  if (!devices && options.backend != "gloo" && options.backend != "mpi") {
    return PlanFailure{kExitUsage, devices.error().message + " For a CPU job use --backend=gloo."};
  }
  if (options.backend == "nccl" && gpus.empty()) {
    return PlanFailure{kExitUsage,
                       "--backend=nccl needs a GPU for each worker, and no GPU is visible here. Use --backend=gloo."};
  }
  if (auto failure = check_program(options.command.front(), facts.program)) return *failure;

  LaunchPlan plan;
  plan.host_name = facts.host_name;
  plan.program = facts.program.path;
  plan.arguments = options.command;
  plan.workers = workers.value();
  plan.visible_devices = devices ? std::move(devices).value()
                                 : std::vector<std::optional<std::string>>(static_cast<std::size_t>(plan.workers));
  plan.backend = options.backend;
  if (plan.workers > 1 && !inherited(wire::env::kOmpNumThreads)) {
    plan.omp_threads = std::max(1, facts.cpu_count / plan.workers);
  }
  plan.run_id = options.run_id.empty() ? facts.random_id : options.run_id;
  plan.role = options.role;
  plan.max_restarts = options.max_restarts;
  plan.grace = options.grace;
  plan.exit_timeout = options.exit_timeout;
  plan.ending_signals = options.ending_signals;
  plan.output.workers.resize(static_cast<std::size_t>(plan.workers));
  plan.quiet = options.quiet;
  plan.inherited_environment = facts.environment;
  return plan;
}

std::string describe(const LaunchPlan& plan) {
  std::string text = "program      " + plan.program + "\n";
  text += "arguments    " + base::join(std::span(plan.arguments).subspan(1), " ") + "\n";
  text += "node         " + plan.host_name + "\n";
  text += "workers      " + std::to_string(plan.workers) + "\n";
  text += "backend      " + (plan.backend.empty() ? "chosen by the workers" : plan.backend) + "\n";
  text +=
      "omp threads  " + (plan.omp_threads ? std::to_string(*plan.omp_threads) + " a worker" : "as inherited") + "\n";
  text += "run id       " + plan.run_id + "\n";
  text += "role         " + plan.role + "\n";
  text += "grace        " + base::human_duration(plan.grace) + "\n";
  text += "store        127.0.0.1, a free port, served by ddplaunch\n";
  for (std::size_t i = 0; i < plan.visible_devices.size(); ++i) {
    text += "rank " + std::to_string(i) +
            std::string(i < 10    ? 7
                        : i < 100 ? 6
                                  : 5,
                        ' ') +
            "GPU " + plan.visible_devices[i].value_or("none") + "\n";
  }
  return text;
}

}  // namespace ddp::launcher
