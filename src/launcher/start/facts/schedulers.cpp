#include "launcher/start/facts/schedulers.h"

#include "base/text.h"
#include "launcher/start/facts/host_list.h"

namespace ddp::launcher {
namespace {

constexpr const char* kSrun = "srun --ntasks-per-node=1 ddplaunch …";

// Returns the command that starts ddplaunch in all components of a heterogeneous job.
std::string srun_of_components(std::int64_t count) {
  return "srun --het-group=0-" + std::to_string(count - 1) + " --ntasks-per-node=1 ddplaunch …";
}

// Returns whether any node has several tasks. The list "2(x3),1" means that three nodes have two tasks each and one
// node has one.
bool several_tasks_in(const std::string& list, SchedulerVariables& variables, const char* name) {
  for (const std::string& part : base::split(list, ',')) {
    const auto tasks = base::parse_integer(part.substr(0, part.find('(')), 0, INT32_MAX);
    if (!tasks) {
      variables.refuse(assignment(name, list) + " is not a list of numbers of tasks, as in \"1(x2)\"");
      return false;
    }
    if (*tasks > 1) return true;
  }
  return false;
}

// Only the step's own variable shows what srun did. SLURM_NTASKS_PER_NODE may be left over from the job's script: srun
// keeps it unless an option changes it.
std::string several_slurm_tasks(SchedulerVariables& variables, const std::optional<Number>& nodes) {
  constexpr const char* kOfStep = "SLURM_STEP_TASKS_PER_NODE";
  if (const auto list = variables.find(kOfStep)) {
    return several_tasks_in(*list, variables, kOfStep) ? assignment(kOfStep, *list) : "";
  }
  const auto tasks = variables.number({"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"}, 0, INT32_MAX);
  if (tasks && nodes && tasks->value > nodes->value) {
    return tasks->source + "=" + std::to_string(tasks->value) + " on " + nodes->source + "=" +
           std::to_string(nodes->value);
  }
  constexpr const char* kOfNode = "SLURM_NTASKS_PER_NODE";
  return variables.exceeds(kOfNode, 1) ? assignment(kOfNode, *variables.find(kOfNode)) : "";
}

// A heterogeneous job has components, and a step without --het-group has only some of them. The job's other nodes then
// stay idle, which is seldom intended.
std::string unused_slurm_components(SchedulerVariables& variables, const std::optional<Number>& nodes) {
  constexpr std::int64_t kComponents = 128;
  const auto components = variables.number({"SLURM_HET_SIZE"}, 0, kComponents);
  if (!components || components->value < 2 || !nodes) return "";
  std::int64_t all = 0;
  for (int i = 0; i < components->value; ++i) {
    all += std::ssize(variables.host_list({("SLURM_JOB_NODELIST_HET_GROUP_" + std::to_string(i)).c_str()}).names);
  }
  if (nodes->value >= all) return "";
  return "this Slurm job has " + base::counted(all, "node") + " in " + base::counted(components->value, "component") +
         " (SLURM_HET_SIZE), of which this step has " + std::to_string(nodes->value) +
         ". To run on all of them: " + srun_of_components(components->value);
}

SchedulerFacts read_slurm(SchedulerVariables& variables) {
  // The steps that Slurm itself runs (a batch script, the shell of salloc, …) have the highest 32-bit numbers.
  constexpr std::int64_t kFirstOwnStep = 0xfffffff0;
  SchedulerFacts facts;
  const auto step = variables.number({"SLURM_STEP_ID"}, 0, UINT32_MAX);
  if (step && step->value >= kFirstOwnStep) {
    facts.declined =
        "SLURM_STEP_ID=" + std::to_string(step->value) + " belongs to a shell or a batch script, not to srun";
    return facts;
  }
  // A step may have fewer nodes than its job.
  facts.node_count = variables.node_count({"SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES"});
  facts.node_rank = variables.node_rank({"SLURM_NODEID", "SLURM_PROCID"});
  facts.workers = variables.gpus({"SLURM_GPUS_ON_NODE"});
  facts.hosts = variables.host_list({"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"});
  facts.job_id = variables.word({"SLURM_JOB_ID", "SLURM_JOBID"});
  if (step && !facts.job_id.empty()) facts.job_id += "." + std::to_string(step->value);
  facts.several_tasks = several_slurm_tasks(variables, facts.node_count);
  const std::string unused = unused_slurm_components(variables, facts.node_count);
  if (!unused.empty()) facts.warnings = {unused};
  return facts;
}

// If a variable exceeds its limit, several launchers run on a node.
struct Limit {
  const char* name;
  std::int64_t most;
};

std::string first_exceeded(SchedulerVariables& variables, std::initializer_list<Limit> limits) {
  for (const Limit& limit : limits) {
    if (variables.exceeds(limit.name, limit.most)) return assignment(limit.name, *variables.find(limit.name));
  }
  return "";
}

SchedulerFacts read_flux(SchedulerVariables& variables) {
  SchedulerFacts facts;
  facts.node_count = variables.node_count({"FLUX_JOB_NNODES"});
  facts.node_rank = variables.node_rank({"FLUX_TASK_RANK"});
  facts.several_tasks = first_exceeded(
      variables,
      {{"FLUX_TASK_LOCAL_ID", 0}, {"FLUX_JOB_SIZE", facts.node_count ? facts.node_count->value : INT32_MAX}});
  // Flux's job ids begin with a letter that is not ASCII.
  facts.job_id = variables.word({"FLUX_JOB_ID"}, "\xc6\x92");
  return facts;
}

// Slurm and Flux also set these variables for Cray's MPI. They then agree with the scheduler's own variables.
SchedulerFacts read_pals(SchedulerVariables& variables) {
  SchedulerFacts facts;
  facts.node_count = variables.node_count({"PMI_SIZE"});
  facts.node_rank = variables.node_rank({"PALS_NODEID"});
  facts.job_id = variables.word({"PALS_APID"});
  facts.several_tasks =
      first_exceeded(variables, {{"PALS_LOCAL_RANKID", 0},
                                 {"PALS_LOCAL_SIZE", 1},
                                 {"PMI_LOCAL_SIZE", 1},
                                 {"PALS_RANKID", facts.node_rank ? facts.node_rank->value : INT32_MAX}});
  return facts;
}

// mpirun reports neither the other hosts nor where rank 0 is.
SchedulerFacts read_open_mpi(SchedulerVariables& variables) {
  SchedulerFacts facts;
  facts.node_count = variables.node_count({"OMPI_COMM_WORLD_SIZE"});
  facts.node_rank = variables.node_rank({"OMPI_COMM_WORLD_RANK"});
  facts.job_id = variables.word({"PMIX_NAMESPACE"});
  facts.several_tasks =
      first_exceeded(variables, {{"OMPI_COMM_WORLD_LOCAL_SIZE", 1}, {"OMPI_COMM_WORLD_LOCAL_RANK", 0}});
  return facts;
}

SchedulerFacts read_pmi(SchedulerVariables& variables) {
  SchedulerFacts facts;
  facts.node_count = variables.node_count({"PMI_SIZE"});
  facts.node_rank = variables.node_rank({"PMI_RANK"});
  facts.job_id = variables.word({"PMI_JOBID"});
  facts.several_tasks =
      first_exceeded(variables, {{"MPI_LOCALNRANKS", 1}, {"MPI_LOCALRANKID", 0}, {"PMI_LOCAL_SIZE", 1}});
  return facts;
}

SchedulerFacts read_jsm(SchedulerVariables& variables) {
  SchedulerFacts facts;
  facts.node_count = variables.node_count({"JSM_NAMESPACE_SIZE"});
  facts.node_rank = variables.node_rank({"JSM_NAMESPACE_RANK"});
  facts.job_id = variables.word({"PMIX_NAMESPACE"});  // LSB_JOBID is the same for all steps of a job
  facts.several_tasks = first_exceeded(variables, {{"JSM_NAMESPACE_LOCAL_SIZE", 1}, {"JSM_NAMESPACE_LOCAL_RANK", 0}});
  return facts;
}

// LSF and PBS do not report GPUs. Their slots are usually processors, so they are not used as numbers of workers.
SchedulerFacts read_lsf(SchedulerVariables& variables) {
  SchedulerFacts facts;
  facts.hosts = variables.host_file("LSB_DJOB_HOSTFILE");
  if (facts.hosts.names.empty()) facts.hosts = variables.host_pairs("LSB_MCPU_HOSTS");
  if (facts.hosts.names.empty()) {
    facts.declined = "neither the file that LSB_DJOB_HOSTFILE names nor LSB_MCPU_HOSTS lists a host";
    facts.warnings = {facts.declined};
  }
  facts.job_id = variables.word({"LSB_JOBID"});
  const std::string element = variables.word({"LSB_JOBINDEX"});
  if (!facts.job_id.empty() && !element.empty() && element != "0") facts.job_id += "[" + element + "]";
  return facts;
}

// The file often exists only on the first node, and may not be visible in a container.
SchedulerFacts read_pbs(SchedulerVariables& variables) {
  SchedulerFacts facts;
  facts.hosts = variables.host_file("PBS_NODEFILE");
  if (facts.hosts.names.empty()) {
    facts.declined = "the file that PBS_NODEFILE names cannot be read here, so the hosts of the PBS job are not known";
    facts.warnings = {facts.declined};
  }
  // PBS_NODENUM counts parts of hosts if PBS divides them.
  if (facts.hosts.names.size() > 1) facts.node_rank = variables.node_rank({"PBS_NODENUM"});
  const auto named = SchedulerVariables::find_host(facts.hosts, variables.own_name());
  if (facts.node_rank && named && *named != facts.node_rank->value) {
    variables.refuse("PBS_NODENUM=" + std::to_string(facts.node_rank->value) + ", but this host, " +
                     shown(variables.own_name()) + ", has number " + std::to_string(*named) + " in the file of " +
                     assignment("PBS_NODEFILE", variables.find("PBS_NODEFILE").value_or("")));
  }
  facts.job_id = variables.word({"PBS_JOBID"});
  return facts;
}

// A JobSet's jobs also have this variable. Only the manifest says how many pods there are.
SchedulerFacts read_indexed_job(SchedulerVariables& variables) {
  SchedulerFacts facts;
  facts.node_rank = variables.node_rank({"JOB_COMPLETION_INDEX"});
  return facts;
}

// Reads Kubeflow's PyTorchJob, version 1, and its imitations, in which RANK and WORLD_SIZE count pods. They are read
// only if requested. Every launcher sets variables of these names for its workers, where they count processes. They may
// belong to an outer job that started ddplaunch as one of its ranks.
SchedulerFacts read_pytorch_job(SchedulerVariables& variables) {
  SchedulerFacts facts;
  facts.node_count = variables.node_count({"WORLD_SIZE"});
  facts.node_rank = variables.node_rank({"RANK"});
  const std::string master = variables.word({"MASTER_ADDR"});
  if (!master.empty()) facts.master_addr = master;
  const auto port = variables.number({"MASTER_PORT"}, 1, UINT16_MAX);
  if (port) facts.master_port = static_cast<std::uint16_t>(port->value);
  return facts;
}

SchedulerFacts read_sagemaker(SchedulerVariables& variables) {
  SchedulerFacts facts;
  facts.hosts = variables.host_json("SM_HOSTS");
  const std::string self = variables.word({"SM_CURRENT_HOST"});
  const auto rank = SchedulerVariables::find_host(facts.hosts, self);
  if (rank) {
    facts.node_rank = Number{*rank, "SM_CURRENT_HOST"};
  } else {
    variables.refuse(assignment("SM_CURRENT_HOST", self) + " is not in " +
                     assignment("SM_HOSTS", variables.find("SM_HOSTS").value_or("")));
  }
  facts.workers = variables.gpus({"SM_NUM_GPUS"});
  facts.job_id = variables.word({"TRAINING_JOB_NAME"});
  return facts;
}

std::optional<std::string> warn_of_batch_script(const SchedulerVariables& variables) {
  const auto count_in = [&](const char* name) {
    return base::parse_integer(variables.find(name).value_or(""), 2, INT32_MAX);
  };
  const auto components = count_in("SLURM_HET_SIZE");
  const auto nodes = variables.has("SLURM_NNODES") ? count_in("SLURM_NNODES") : count_in("SLURM_JOB_NUM_NODES");
  if (!variables.has("SLURM_JOB_ID") || (!components && !nodes)) return std::nullopt;
  const std::string what = components ? base::counted(*components, "component") : base::counted(*nodes, "node");
  return "this Slurm job has " + what +
         ", but srun did not start ddplaunch, which therefore runs on this node only. To run on all of them: " +
         (components ? srun_of_components(*components) : kSrun);
}

// PyTorchJob sets these variables in a Kubernetes pod. A user who starts ddplaunch in a pod as a rank of another job
// sets them too, but also sets LOCAL_RANK.
std::optional<std::string> warn_of_pods(const SchedulerVariables& variables) {
  for (const char* name : {"KUBERNETES_SERVICE_HOST", "RANK", "WORLD_SIZE", "MASTER_ADDR"}) {
    if (!variables.has(name)) return std::nullopt;
  }
  const auto pods = base::parse_integer(*variables.find("WORLD_SIZE"), 2, INT32_MAX);
  if (!pods || variables.has("LOCAL_RANK")) return std::nullopt;
  return "RANK and WORLD_SIZE=" + std::to_string(*pods) +
         " may count pods, but this job runs in this pod only. To run one job in all pods, use --scheduler=kubernetes";
}

}  // namespace

// clang-format off
std::span<const Scheduler> scheduler_table() {
  static const std::vector<Scheduler> table = {
    {.name = "slurm", .title = "Slurm", .signs = {"SLURM_STEP_ID", "SLURM_PROCID"}, .read = read_slurm,
     .start = kSrun, .starts_processes = true},
    {.name = "flux", .title = "Flux", .signs = {"FLUX_TASK_RANK", "FLUX_JOB_NNODES"}, .read = read_flux,
     .start = "flux run -N NODES --tasks-per-node=1 ddplaunch …", .starts_processes = true, .has_own_daemons = true},
    {.name = "pals", .title = "PALS", .signs = {"PALS_NODEID", "PALS_RANKID"}, .read = read_pals,
     .start = "mpiexec --ppn 1 ddplaunch …", .starts_processes = true},
    {.name = "openmpi", .title = "Open MPI", .signs = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
     .read = read_open_mpi,
     .start = "mpirun -npernode 1 ddplaunch …", .starts_processes = true, .has_own_daemons = true},
    {.name = "pmi", .title = "PMI", .signs = {"PMI_RANK", "PMI_SIZE"}, .read = read_pmi,
     .start = "mpiexec -ppn 1 ddplaunch …", .starts_processes = true},
    {.name = "jsm", .title = "JSM", .signs = {"JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"}, .read = read_jsm,
     .start = "jsrun --rs_per_host=1 --tasks_per_rs=1 ddplaunch …", .starts_processes = true},
    {.name = "lsf", .title = "LSF", .signs = {"LSB_DJOB_HOSTFILE"}, .read = read_lsf},
    {.name = "lsf", .title = "LSF", .signs = {"LSB_MCPU_HOSTS"}, .read = read_lsf},
    {.name = "pbs", .title = "PBS", .signs = {"PBS_NODEFILE"}, .read = read_pbs},
    {.name = "kubernetes", .title = "Kubernetes", .signs = {"JOB_COMPLETION_INDEX"}, .read = read_indexed_job},
    {.name = "kubernetes", .title = "PyTorchJob", .signs = {"RANK", "WORLD_SIZE"}, .read = read_pytorch_job,
     .only_if_asked = true},
    {.name = "sagemaker", .title = "SageMaker", .signs = {"SM_HOSTS", "SM_CURRENT_HOST"}, .read = read_sagemaker},
  };
  return table;
}
// clang-format on

std::optional<std::string> warn_of_lone_node(const SchedulerVariables& variables) {
  const auto warning = warn_of_batch_script(variables);
  return warning ? warning : warn_of_pods(variables);
}

}  // namespace ddp::launcher
