#include "launcher/check_nodes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/exit_code.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/unique_fd.h"
#include "launcher/run/job/node_hello.h"
#include "launcher/run/process/our_programs.h"
#include "launcher/run/process/private_directory.h"
#include "launcher/start/cli/job_options.h"
#include "launcher/start/doctor/between/facts_to_compare.h"
#include "launcher/start/doctor/checks.h"
#include "launcher/start/doctor/report.h"
#include "launcher/start/doctor/run_checks.h"
#include "launcher/start/facts/node_facts.h"
#include "launcher/start/facts/resource_limits.h"
#include "launcher/start/log/file_output.h"
#include "launcher/start/plan/worker_command.h"
#include "wire/worker_env.h"

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;

// Returns the options of a job that meets as the user's job does, and starts one worker per node.
Options options_of_check(const Options& job) {
  Options options = default_options(job.compatibility_mode);
  options.nproc_per_node = 1;
  options.no_python = true;
  options.local_rank_argument = false;
  options.command = {our_program("ddplaunch"), "on-node"};
  options.device_visibility = DeviceVisibility::all;
  options.hang_timeout = 0ms;
  options.exit_timeout = 30s;  // a worker that is stopped must not keep the others
  options.log_dir = "/dev/null";
  options.ending_signals = job.ending_signals;
  // The user should know for which nodes this one waits.
  options.log.level = job.subcommand.empty() ? std::max(job.log.level, LogLevel::note) : LogLevel::note;
  options.min_nodes = job.min_nodes;
  options.max_nodes = job.max_nodes;
  options.node_rank = job.node_rank;
  options.scheduler = job.scheduler;
  options.node_timeout = job.node_timeout;
  options.run_id = job.run_id;
  options.rdzv_backend = job.rdzv_backend;
  options.rdzv_endpoint = job.rdzv_endpoint;
  options.rdzv_conf = job.rdzv_conf;
  options.standalone = job.standalone;
  options.master_addr = job.master_addr;
  options.master_port = job.master_port;
  options.local_addr = job.local_addr;
  options.auth_token_file = job.auth_token_file;
  options.store_open = job.store_open;
  options.store_limits = job.store_limits;
  return options;
}

// A check that later jobs of the same allocation need not repeat.
struct KeptCheck {
  bool is_deep = false;
  std::string variables;
  doctor::NodeResult result;
};
BOOST_DESCRIBE_STRUCT(KeptCheck, (), (is_deep, variables, result))

// Returns a hash of the variables on which the result of a check depends.
std::string hash_of_variables(const LaunchPlan& plan) {
  constexpr std::string_view kPrefixes[] = {"NCCL_", "GLOO_", "TORCH_", "CUDA_", "UCX_", "FI_", "OMP_"};
  std::vector<std::string> lines;
  for (const std::string& line : plan.inherited_environment) {
    if (std::ranges::any_of(kPrefixes, [&](std::string_view prefix) { return line.starts_with(prefix); }))
      lines.push_back(line);
  }
  std::ranges::sort(lines);
  base::Fnv1a64 hash;
  for (const std::string& line : lines) hash.update(line + "\n");
  return base::hex64(hash.value());
}

// Returns the file in which a check of this allocation is kept on this node, or "" if no scheduler names it.
std::string kept_file(const LaunchPlan& plan) {
  // The second variable changes when a job is queued again, or is an element of an array.
  constexpr std::pair<const char*, const char*> kIds[] = {
      {"SLURM_JOB_ID", "SLURM_RESTART_COUNT"}, {"PBS_JOBID", ""}, {"LSB_JOBID", "LSB_JOBINDEX"}, {"FLUX_JOB_ID", ""}};
  const auto variable = [&](const char* name) { return find_variable(plan.inherited_environment, name).value_or(""); };
  for (const auto& [name, part] : kIds) {
    const std::string id = variable(name);
    const std::string again = variable(part);
    if (id.empty() || (id + again).find('/') != std::string::npos) continue;
    return temporary_root() + "/ddplaunch-check-" + std::to_string(::geteuid()) + "-" + plan.host_name + "-" + id +
           (again.empty() ? "" : "." + again);
  }
  return "";
}

// Returns the facts that a launcher knows before it meets others.
std::vector<doctor::Fact> facts_of_launcher(std::vector<doctor::Fact> facts) {
  std::erase_if(facts, [](const doctor::Fact& fact) { return fact.name == "MTU"; });
  return facts;
}

// What the worker of this node has to know about it. It is read from file systems that may hang.
struct OwnFacts {
  std::vector<doctor::Fact> facts;
  std::string interfaces;
};
BOOST_DESCRIBE_STRUCT(OwnFacts, (), (facts, interfaces))

constexpr const char* kFacts = "facts";

// Reads them as a check does.
doctor::Findings read_facts(const doctor::Node& node) {
  const std::string nccl = node.setting(wire::env::kNcclInterface);
  const std::string interfaces = nccl.empty() ? node.setting(wire::env::kGlooInterface) : nccl;
  return {doctor::ok(doctor::json_text(OwnFacts{doctor::facts_to_compare(node), interfaces}))};
}

// Takes the facts out of these findings. There are none if the node does not answer; other findings say so.
OwnFacts take_facts(doctor::Findings& findings) {
  OwnFacts own;
  for (const doctor::Finding& finding : findings) {
    if (finding.check == kFacts && finding.grade == doctor::Grade::ok)
      wire::read_json(wire::Json::parse(finding.text), own);
  }
  std::erase_if(findings, [](const doctor::Finding& finding) { return finding.check == kFacts; });
  return own;
}

// Returns 0 for one worker per GPU.
int number_of(const WorkerCount& workers) {
  if (workers.by == WorkerCount::By::number) return workers.number;
  const bool is_by_cpus = workers.by == WorkerCount::By::cpus;
  return is_by_cpus ? usable_cpus(static_cast<int>(affinity_cpus().size()), cgroup_cpu_limit()) : 0;
}

}  // namespace

base::Result<NodeCheck, StartFailure> NodeCheck::plan(const Options& job) {
  const Options options = options_of_check(job);
  auto plan = make_launch_plan(options, gather_node_facts(facts_wanted(options)));
  if (!plan) return plan.error();
  // A launcher that comes late, and finds the job itself in place of the check, must not take part in it.
  plan.value().run_id = name_of_check(plan.value().run_id);
  plan.value().nodes.is_check = job.check != Check::off;
  // The worker does not use these, and the job itself says what it sets.
  for (const char* name : {wire::env::kGlooInterface, wire::env::kNcclInterface}) {
    plan.value().inherited_environment.push_back(std::string(name) + "=");
  }
  plan.value().store.warns = !job.subcommand.empty();
  plan.value().notes.clear();
  plan.value().node_notes.clear();
  NodeCheck check(std::move(plan).value());
  check.nodes_ = job.max_nodes > 1 ? job.max_nodes : check.plan_.nodes.several() ? check.plan_.nodes.max : 0;
  return check;
}

void NodeCheck::check_this_node(const DoctorOptions& options, const WorkerCount& workers,
                                std::vector<doctor::Check> more) {
  // A driver that hangs delays the first line already.
  const auto until = std::chrono::steady_clock::now() + 9s;
  const doctor::Node node = doctor::this_node(number_of(workers), nodes_, options.checkpoint_dir);
  const auto left = std::chrono::ceil<std::chrono::seconds>(until - std::chrono::steady_clock::now());
  const auto quick = doctor::all_checks(false);
  more.insert(more.end(), quick.begin(), quick.end());
  more.push_back({kFacts, read_facts});
  doctor::Findings findings = doctor::run_checks(more, node, std::min(8s, left));
  const OwnFacts own = take_facts(findings);
  if (std::ranges::find(findings, doctor::kNoProcess, &doctor::Finding::text) != findings.end()) {
    doctor::Finding failure = doctor::fail(
        "no more processes may be started, not even for a check (ulimit -u, or pids.max of the control group)",
        "the line '* - nproc unlimited' in /etc/security/limits.d/processes.conf, and a new login. In a "
        "container: docker run --pids-limit=-1");
    failure.check = "processes";
    findings.insert(findings.begin(), std::move(failure));
  }
  // The proof uses memory of the GPUs, so it comes behind what looks at that.
  if (options.deep) {
    const doctor::Findings proved = doctor::run_checks(doctor::all_checks(true).subspan(quick.size()), node, 60s);
    findings.insert(findings.end(), proved.begin(), proved.end());
  }
  own_ = {.node = 0,
          .host = node.host_name,
          .workers = node.workers,
          .gpus = static_cast<int>(node.gpus.size()),
          .findings = std::move(findings),
          .facts = own.facts,
          .folder = options.checkpoint_dir,
          .interfaces = own.interfaces,
          .kept = ""};
}

void NodeCheck::follow(const LaunchPlan& ended, int nodes) {
  // Others may be at the proof for up to a minute.
  constexpr std::chrono::milliseconds kWait = 90s;
  plan_.store.token = ended.store.token;
  plan_.store.token_source = ended.store.token_source;
  plan_.nodes = ended.nodes;
  plan_.nodes.min = plan_.nodes.max = nodes;
  plan_.nodes.join_timeout = std::min(plan_.nodes.join_timeout, kWait);
  plan_.store.warns = false;
}

bool NodeCheck::finds_kept(int workers, bool is_deep) {
  KeptCheck kept;
  try {
    // Only what this user has written counts.
    const base::UniqueFd file(::open(kept_file(plan_).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat status {};
    if (!file || ::fstat(file.get(), &status) != 0 || status.st_uid != ::geteuid() || !S_ISREG(status.st_mode))
      return false;
    wire::read_json(wire::Json::parse(base::read_file("/proc/self/fd/" + std::to_string(file.get()))), kept);
  } catch (const std::exception&) {
    return false;
  }
  const auto own = std::ranges::find(kept.result.job.findings, kept.result.node, &doctor::NodeFindings::node);
  if (own == kept.result.job.findings.end() || (is_deep && !kept.is_deep)) return false;
  const doctor::Node node = doctor::this_node(workers, nodes_, "");
  const doctor::Check check = {kFacts, read_facts};
  doctor::Findings facts = doctor::run_checks(std::span(&check, 1), node, 4s);
  const bool is_same = kept.variables == hash_of_variables(plan_) && own->workers == workers &&
                       facts_of_launcher(own->facts) == take_facts(facts).facts;
  if (!is_same) return false;
  own_ = *own;
  own_.facts = facts_of_launcher(own->facts);
  own_.kept = kept.result.id;
  kept_ = std::move(kept.result);
  kept_->is_kept = true;
  return true;
}

void NodeCheck::keep(const doctor::NodeResult& result, bool is_deep) const {
  const std::string file = kept_file(plan_);
  const bool fails = doctor::exit_code_of(doctor::all_findings(result), false) != 0;
  if (fails) forget();
  if (file.empty() || fails || result.id.empty()) return;
  const std::string text = doctor::json_text(KeptCheck{is_deep, hash_of_variables(plan_), result});
  // Without it, the next job checks again.
  const std::string part = file + "." + base::hex64(base::random64());
  if (!write_file(part, text) || std::rename(part.c_str(), file.c_str()) != 0) ::unlink(part.c_str());
}

void NodeCheck::forget() const {
  if (const std::string file = kept_file(plan_); !file.empty()) ::unlink(file.c_str());
}

doctor::NodeResult NodeCheck::alone() const {
  if (kept_ && kept_->expected == 1) return *kept_;
  return {0, 1, {.addresses = {}, .findings = {own_}, .paths = {}, .speeds = {}}, base::hex64(base::random64())};
}

base::Result<doctor::NodeResult, LaunchEnd> NodeCheck::meet_others(Log& log, ControllerLink* controller) {
  const auto own_fault = [&](const std::string& text) {
    log.write({LogLevel::error, LogSource::launcher, text});
    return LaunchEnd{base::ExitStatus::exited(base::kExitOwnFault), wire::CauseCode::launcher};
  };
  PrivateDirectory directory({temporary_root()});
  if (const auto failure = directory.make()) return own_fault(failure->message);
  // Launchers compare the arguments of their programs, so the directory is none.
  plan_.inherited_environment.push_back(std::string(wire::env::kDoctorDirectory) + "=" + directory.path());
  if (!write_file(directory.path() + doctor::kFindingsFile, doctor::json_text(own_)))
    return own_fault(write_failure("the doctor's findings").message);
  const LaunchEnd end = launch(plan_, log, controller);
  // The check ends with a time-out if a worker is stopped. The others have their result, in which it is missing.
  const std::string found = base::read_file(directory.path() + doctor::kResultFile);
  const bool has_result = !found.empty() && end.status.shell_code() == base::kExitHung;
  if (!end.status.success() && !has_result) return end;
  try {
    doctor::NodeResult result;
    wire::read_json(wire::Json::parse(found), result);
    return result.is_kept ? *kept_ : result;
  } catch (const std::exception& error) {
    return own_fault(std::string("the result of the check cannot be read: ") + error.what());
  }
}

}  // namespace ddp::launcher
