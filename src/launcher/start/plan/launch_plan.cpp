#include "launcher/start/plan/launch_plan.h"

#include <algorithm>

#include "base/exit_code.h"
#include "base/text.h"
#include "launcher/limits.h"
#include "launcher/start/facts/stdin_program.h"
#include "launcher/start/plan/cluster_options.h"
#include "launcher/start/plan/cpu_binding.h"
#include "launcher/start/plan/device_binding.h"
#include "launcher/start/plan/preload_plan.h"
#include "launcher/start/plan/rendezvous_plan.h"
#include "launcher/start/plan/worker_command.h"
#include "wire/worker_env.h"

namespace ddp::launcher {

using base::kExitUsage;

namespace {

constexpr std::size_t kMostBindingNotes = 4;

base::Result<int, StartFailure> count_workers(const Options& options, int gpus, int cpus) {
  using By = WorkerCount::By;
  const By by = options.nproc_per_node.by;
  if (by == By::number) return options.nproc_per_node.number;
  if (by == By::cpus) return cpus;
  if (by == By::gpus_or_cpus) return gpus > 0 ? gpus : cpus;
  if (by == By::gpus && gpus == 0) {
    return StartFailure{kExitUsage, "--nproc-per-node=gpu: no GPU is visible here. Use a number, auto or cpu."};
  }
  const bool takes_gpus = by == By::gpus || options.compatibility_mode == CompatibilityMode::native;
  return takes_gpus && gpus > 0 ? gpus : 1;
}

// Returns whether the program is an executable that does not run Python. Under the name torchrun, all programs are
// treated as torchrun treats them.
bool runs_native_program(const Options& options, const NodeFacts& facts) {
  return program_kind(options) == ProgramKind::executable && !facts.runs_python &&
         options.compatibility_mode == CompatibilityMode::native;
}

struct Devices {
  int workers = 1;
  DeviceBinding binding;
};

base::Result<Devices, StartFailure> plan_devices(const Options& options, const NodeFacts& facts) {
  const auto inherited = find_variable(facts.environment, wire::env::kCudaVisibleDevices);
  std::vector<VisibleGpu> gpus = visible_gpus(inherited, facts.gpus);
  if (options.gpus && facts.has_uncounted_gpus) {
    return StartFailure{kExitUsage,
                        "--gpus=" + *options.gpus +
                            ": ddplaunch cannot list the GPUs of this node (WSL2). Leave the option out, and "
                            "set CUDA_VISIBLE_DEVICES instead."};
  }
  if (options.gpus) {
    auto chosen = choose_gpus(*options.gpus, gpus, facts.gpus);
    if (!chosen) return StartFailure{kExitUsage, chosen.error().message};
    gpus = std::move(chosen).value();
  }
  const auto workers = count_workers(options, static_cast<int>(gpus.size()), facts.cpu_count);
  if (!workers) return workers.error();
  const auto repeated = inherited ? repeated_gpu(*inherited, facts.gpus) : std::nullopt;
  const std::string why_hidden = !repeated ? ""
                                           : "CUDA_VISIBLE_DEVICES=" + *inherited + " names GPU " + *repeated +
                                                 " twice, so CUDA shows no GPU to the workers. Name each GPU once.";
  if (options.backend == "nccl" && gpus.empty() && !facts.has_uncounted_gpus) {
    return StartFailure{kExitUsage, "--backend=nccl needs a GPU for each worker, and no GPU is visible here. " +
                                        (repeated ? why_hidden : "Use --backend=cpu.")};
  }
  DeviceRequest request;
  request.workers = workers.value();
  request.gpus = std::move(gpus);
  request.inherited = inherited;
  request.chosen = options.gpus.has_value();
  const bool is_native = runs_native_program(options, facts);
  request.own = options.device_visibility ? options.device_visibility == DeviceVisibility::own : is_native;
  request.virtual_local_rank = options.virtual_local_rank;
  request.oversubscribe = options.oversubscribe;
  request.backend = options.backend;
  auto binding = bind_devices(request);
  if (!binding) return StartFailure{kExitUsage, binding.error().message};
  Devices devices{workers.value(), std::move(binding).value()};
  if (repeated) devices.binding.note = why_hidden;
  return devices;
}

base::Result<std::vector<WorkerBinding>, StartFailure> plan_cpus(const Options& options, const NodeFacts& facts,
                                                                 const DeviceBinding& devices) {
  if (!facts.topology) {
    return StartFailure{base::kExitOwnFault, "--numa-binding=" + std::string(name_of(*options.numa_binding)) + ": " +
                                                 facts.topology.error().message + ". Leave the option out."};
  }
  const std::vector<CpuPlace>& cpus = facts.topology.value().cpus;
  const int first_node = cpus.front().numa_node;
  const bool one_node = std::ranges::all_of(cpus, [&](const CpuPlace& place) { return place.numa_node == first_node; });
  std::vector<WorkerPlace> places;
  for (const std::optional<VisibleGpu>& gpu : devices.meant) {
    WorkerPlace place;
    if (gpu) place.gpu = gpu->name;
    if (gpu && gpu->index) place.numa_node = facts.gpus.at(static_cast<std::size_t>(*gpu->index)).numa_node;
    // With a single NUMA node, the kernel does not report the node of a device. The GPU belongs to that node.
    if (gpu && !place.numa_node && one_node) place.numa_node = first_node;
    places.push_back(std::move(place));
  }
  auto bindings = bind_cpus(*options.numa_binding, facts.topology.value(), places);
  if (!bindings) return StartFailure{kExitUsage, bindings.error().message};
  return std::move(bindings).value();
}

void note_bindings(NumaBinding mode, LaunchPlan& plan) {
  if (plan.bindings.size() > kMostBindingNotes) {
    plan.notes.push_back(base::counted(plan.workers, "worker") + " bound to CPUs and memory (--numa-binding=" +
                         std::string(name_of(mode)) + "); --dry-run shows where");
    return;
  }
  for (std::size_t i = 0; i < plan.bindings.size(); ++i) {
    plan.notes.push_back("local rank " + std::to_string(i) + ": " + plan.bindings[i].description);
  }
}

void choose_omp_threads(const NodeFacts& facts, LaunchPlan& plan) {
  if (plan.workers <= 1 || find_variable(facts.environment, wire::env::kOmpNumThreads)) return;
  int threads = std::max(1, facts.cpu_count / plan.workers);
  for (const WorkerBinding& binding : plan.bindings) threads = std::min(threads, static_cast<int>(binding.cpus.size()));
  plan.omp_threads = threads;
  plan.notes.push_back("using OMP_NUM_THREADS=" + std::to_string(threads) + " per worker (" +
                       base::counted(facts.cpu_count, "CPU") + " / " + base::counted(plan.workers, "worker") +
                       "); export it to override");
}

void take_facts(const NodeFacts& facts, LaunchPlan& plan) {
  plan.host_name = facts.host_name;
  plan.memory_room = facts.memory_room;
  plan.node_has_gpus = !facts.gpus.empty();
  plan.node_gpus = facts.gpus;
  plan.has_uncounted_gpus = facts.has_uncounted_gpus;
  plan.python_modules = facts.python_modules;
  plan.inherited_environment = facts.environment;
  std::erase_if(plan.inherited_environment,
                [](const std::string& line) { return line.starts_with(std::string(wire::env::kAuthToken) + "="); });
}

void take_devices(const Devices& devices, LaunchPlan& plan) {
  plan.workers = devices.workers;
  plan.visible_devices = devices.binding.visible;
  for (const std::optional<VisibleGpu>& gpu : devices.binding.meant) {
    plan.devices.push_back(gpu ? std::optional(gpu->name) : std::nullopt);
    plan.device_indices.push_back(gpu ? gpu->index : std::nullopt);
  }
  if (!devices.binding.note.empty()) plan.node_notes.push_back(devices.binding.note);
}

// NCCL loads one plug-in. The user's own comes first, and "none" switches it off.
void choose_nccl_profiler(const NodeFacts& facts, LaunchPlan& plan) {
  const auto own = find_variable(facts.environment, wire::env::kNcclProfiler);
  if (!own || *own == facts.nccl_profiler) {
    plan.nccl_profiler = facts.nccl_profiler;
  } else if (!own->empty() && *own != "none") {
    plan.node_notes.push_back(std::string(wire::env::kNcclProfiler) + "=" + *own +
                              ": NCCL loads this plug-in, so ddplaunch sees the calls of NCCL only by other means");
  }
}

void plan_preload(const Options& options, const NodeFacts& facts, LaunchPlan& plan) {
  const bool is_program = program_kind(options) == ProgramKind::executable;
  if (plan.preload == kPreloadAuto && is_program && !facts.runs_python) plan.preload.clear();
  if (!plan.preload.empty()) plan.preload_refused = no_preload_reason(plan);
}

// A fault of a rank that does not exist would test nothing. A note mentions the faults, so that the user does not
// forget them.
std::optional<StartFailure> check_faults(LaunchPlan& plan) {
  const std::string text = base::join(plan.faults, " ");
  const auto faults = wire::parse_faults(text);
  if (!faults) return StartFailure{kExitUsage, "--inject=" + text + ": " + faults.error().message};
  for (const wire::Fault& fault : faults.value()) {
    // The number of ranks on several nodes is not known yet.
    if (fault.rank < plan.workers || plan.nodes.several()) continue;
    return StartFailure{kExitUsage, "--inject: rank=" + std::to_string(fault.rank) + ", but there " +
                                        base::plural(plan.workers, "is ", "are ") +
                                        base::counted(plan.workers, "worker") + ". Ranks count from 0."};
  }
  if (!plan.faults.empty()) plan.notes.push_back("ddplaunch will inject faults: --inject=" + text);
  std::vector<std::string> at_calls;
  for (const std::string& one : base::split(text, ' ')) {
    const auto fault = wire::parse_fault(one);
    if (!fault) continue;  // the text between two spaces is empty
    fault.value().after ? plan.timed_faults.push_back(fault.value()) : at_calls.push_back(one);
  }
  plan.faults = std::move(at_calls);
  return std::nullopt;
}

// A worker alone has the terminal, as a program that is run without a launcher does, so that a debugger works.
std::optional<StartFailure> plan_stdin(const Options& options, const NodeFacts& facts, LaunchPlan& plan) {
  if (plan.stdin_local_rank && *plan.stdin_local_rank >= plan.workers) {
    return StartFailure{kExitUsage, "--stdin=" + std::to_string(*plan.stdin_local_rank) +
                                        " names a local rank, but there " + base::plural(plan.workers, "is ", "are ") +
                                        base::counted(plan.workers, "worker") + ". Local ranks count from 0."};
  }
  if (plan.stdin_local_rank && facts.standard_input == StandardInput::background_terminal) {
    plan.node_notes.push_back("local rank " + std::to_string(*plan.stdin_local_rank) +
                              " has no standard input, because the job runs in the background of its terminal");
  }
  const bool is_alone = plan.workers == 1 && !plan.nodes.several();
  if (is_alone && facts.standard_input == StandardInput::terminal) plan.stdin_local_rank = 0;
  const bool reads_program = program_kind(options) == ProgramKind::executable
                                 ? reads_program_from_stdin(options.command)
                                 : program_kind(options) == ProgramKind::script && names_stdin(options.command.front());
  if (!reads_program || (plan.stdin_local_rank && plan.workers == 1 && plan.max_restarts == 0)) return std::nullopt;
  return StartFailure{kExitUsage, base::join(options.command, " ") +
                                      ": the program would be read from the standard input, which workers do not have. "
                                      "Save it in a file, or use --stdin=0 with one worker and without restarts."};
}

// Sets what only the environment can set.
void plan_from_environment(const std::vector<std::string>& environment, HangPlan& plan) {
  plan.trace_file = find_variable(environment, wire::env::kHangTrace).value_or("");
  // Tests cannot wait for half an hour, so this variable sets a shorter limit.
  const auto text = find_variable(environment, wire::env::kTestStillLimit);
  const auto seconds = text ? base::parse_integer(*text, 1, 86'400) : std::nullopt;
  if (seconds) plan.still = std::chrono::seconds(*seconds);
}

}  // namespace

base::Result<LaunchPlan, StartFailure> make_launch_plan(const Options& asked, const NodeFacts& facts) {
  const auto derived = with_cluster(without_ignored_number(asked), facts);
  if (!derived) return derived.error();
  const Options& options = derived.value();
  const auto devices = plan_devices(options, facts);
  if (!devices) return devices.error();
  auto command = make_worker_command(options, facts);
  if (!command) return command.error();
  auto rendezvous = plan_rendezvous(options, facts);
  if (!rendezvous) return rendezvous.error();

  LaunchPlan plan;
  static_cast<JobWishes&>(plan) = options;
  plan.hang = {options.hang_timeout, options.hang_limit, options.hang_action};
  plan.notes = options.warnings;
  plan_from_environment(facts.environment, plan.hang);
  static_cast<WorkerCommand&>(plan) = std::move(command).value();
  if (!plan.interpreter_note.empty()) plan.node_notes.push_back(plan.interpreter_note);
  take_facts(facts, plan);
  take_devices(devices.value(), plan);
  const std::uint64_t descriptors =
      limits::kJobDescriptors + limits::kDescriptorsPerWorker * static_cast<std::uint64_t>(plan.workers);
  if (auto shortage = descriptor_shortage(facts.limits, descriptors, base::counted(plan.workers, "worker"))) {
    return StartFailure{base::kExitOwnFault, *shortage};
  }
  plan.nodes = rendezvous.value().nodes;
  if (auto failure = plan_stdin(options, facts, plan)) return *failure;
  if (auto failure = check_faults(plan)) return *failure;
  if (auto failure = check_shown_ranks(options, plan)) return *failure;
  if (plan.gather_output && !plan.nodes.several())
    plan.notes.emplace_back("--gather-output has no effect, because the job has one node");
  plan.store = rendezvous.value().store;
  plan.run_id = rendezvous.value().run_id;
  base::append(plan.notes, rendezvous.value().notes);

  plan_output(options, facts, plan);
  if (options.numa_binding) {
    auto bindings = plan_cpus(options, facts, devices.value().binding);
    if (!bindings) return bindings.error();
    plan.bindings = std::move(bindings).value();
    note_bindings(*options.numa_binding, plan);
  }
  choose_omp_threads(facts, plan);
  if (!plan.hang.is_off()) {
    if (plan.files.kind != RunFiles::Kind::none) plan.python_hook = facts.python_hook;
    if (!facts.gpus.empty() || facts.has_uncounted_gpus) choose_nccl_profiler(facts, plan);
  }
  plan.is_native_program = runs_native_program(options, facts);
  plan.python_unbuffered = options.compatibility_mode == CompatibilityMode::native && facts.runs_python;
  base::append(plan.node_notes, limit_notes(facts.limits, static_cast<int>(facts.gpus.size())));
  plan_preload(options, facts, plan);
  return plan;
}

}  // namespace ddp::launcher
