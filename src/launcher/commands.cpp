#include "launcher/commands.h"

#include <fcntl.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigset_t and friends are POSIX
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>

#include "base/exit_code.h"
#include "base/printable.h"
#include "base/text.h"
#include "launcher/check_nodes.h"
#include "launcher/launch.h"
#include "launcher/limits.h"
#include "launcher/run/process/launcher_signals.h"
#include "launcher/run/process/our_programs.h"
#include "launcher/run/remote/controller_facts.h"
#include "launcher/run/remote/controller_link.h"
#include "launcher/run/remote/host_job.h"
#include "launcher/see/explain/explain_command.h"
#include "launcher/see/report/add_to_reports.h"
#include "launcher/see/report/report_command.h"
#include "launcher/see/store_command/store_command.h"
#include "launcher/see/top/running_jobs.h"
#include "launcher/see/top/top_command.h"
#include "launcher/start/cli/parse.h"
#include "launcher/start/doctor/between/check_decision.h"
#include "launcher/start/doctor/between/node_worker.h"
#include "launcher/start/doctor/checks.h"
#include "launcher/start/doctor/report.h"
#include "launcher/start/doctor/run_checks.h"
#include "launcher/start/facts/node_facts.h"
#include "launcher/start/facts/resource_limits.h"
#include "launcher/start/plan/launch_plan.h"
#include "launcher/start/plan/output_plan.h"
#include "launcher/start/plan/used_gpu.h"
#include "launcher/start/plan/worker_command.h"
#include "wire/worker_env.h"

namespace ddp::launcher {
namespace {

int print(const std::string& text) {
  const bool written = std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  // A reader such as head may have ended because it has read enough.
  if (written || errno == EPIPE) return 0;
  std::fprintf(stderr, "ddplaunch: error: cannot write to the standard output: %s\n", std::strerror(errno));
  return base::kExitOwnFault;
}

// A file or pipe that gets the number of a closed one would receive what is meant for the terminal.
void open_standard_descriptors() {
  for (int fd = 0; fd < 3; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0) static_cast<void>(::open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY));
  }
}

// The soft limit is often 1024, and the hard limit is much higher. Each worker takes four descriptors, and each client
// of the store takes one.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

std::vector<std::string> environment_lines() {
  std::vector<std::string> environment;
  for (char** line = environ; line != nullptr && *line != nullptr; ++line) environment.emplace_back(*line);
  return environment;
}

LogLine error(const std::string& text) {
  return {LogLevel::error, LogSource::launcher, text};
}

LogSettings with_color(LogSettings log, Color choice, const std::vector<std::string>& environment) {
  log.color = wants_color(choice, environment, ::isatty(STDERR_FILENO) == 1);
  return log;
}

// Opens --launcher-log. Returns false, and logs the reason, if that fails.
bool has_file(Log& log) {
  const auto failure = log.open_file();
  if (failure) log.write(error(failure->message));
  return !failure;
}

// Holds the connection to the launcher on another node that has started this one, and its launch request.
struct Controller {
  ControllerLink& link;
  const LaunchRequest& request;
};

// `what` uses up to `count` processes or connections. Returns false, and logs the reason, if they need too many
// descriptors.
bool has_descriptors(std::size_t count, const std::string& what, Log& log) {
  const auto needed = limits::kJobDescriptors + limits::kDescriptorsPerWorker * count;
  const auto shortage = descriptor_shortage(read_resource_limits(), needed, what);
  if (shortage) log.write(error(*shortage));
  return !shortage;
}

int start_on_hosts(const Options& options, const std::vector<std::string>& environment) {
  Log log(with_color(options.log, options.color, environment));
  const auto plan = make_host_plan(options, gather_controller_facts(options, environment));
  hide_auth_token();
  if (!plan) {
    log.write(error(plan.error().message));
    return plan.error().exit_code;
  }
  if (options.dry_run) return print(options.json ? describe_json(plan.value()) : describe(plan.value()));
  const std::size_t hosts = plan.value().starts.size();
  if (!has_descriptors(hosts, base::counted(static_cast<std::int64_t>(hosts), "host"), log)) return base::kExitOwnFault;
  if (!has_file(log)) return base::kExitOwnFault;
  return exit_as(run_host_job(plan.value(), log));
}

// Returns the virtual environment of the path that the user has called (perhaps a symbolic link), or of the file
// itself.
std::string own_virtual_environment(const std::string& invoked_as, const std::vector<std::string>& environment) {
  const std::string called = virtual_environment_of(find_program(invoked_as, environment).path);
  return called.empty() ? virtual_environment_of(our_folder() + "/ddplaunch") : called;
}

base::Result<LaunchPlan, StartFailure> plan_of(const Options& options, const std::string& invoked_as,
                                               const std::vector<std::string>& environment,
                                               const std::function<void(const std::string&)>& note) {
  FactsWanted wanted = facts_wanted(options);
  wanted.python_hook = our_program("ddp_python");
  wanted.nccl_profiler = our_program("libnccl-profiler-ddplaunch.so");
  if (wanted.kind != ProgramKind::executable) {
    wanted.virtual_environment = own_virtual_environment(invoked_as, environment);
  }
  // A driver that makes GPUs ready for other programs may take some seconds.
  constexpr std::chrono::seconds kUntilNote{5};
  constexpr std::chrono::seconds kLimit{60};
  const bool is_checked = options.check != Check::off;
  auto gpus = doctor::gpus_of_this_node(kUntilNote);
  if (!gpus && !is_checked) {
    note("the files of the NVIDIA driver do not answer. Waiting for them, for a minute at most");
    gpus = doctor::gpus_of_this_node(kLimit);
  }
  if (!gpus) {
    return StartFailure{is_checked ? doctor::kExitFail : base::kExitOwnFault,
                        "the files of the driver cannot be read: " + gpus.error().message + " (ddplaunch doctor)"};
  }
  NodeFacts facts = gather_node_facts(wanted);
  facts.gpus = std::move(gpus).value();
  facts.has_uncounted_gpus = has_uncounted_gpus("/", facts.gpus);
  return make_launch_plan(options, facts);
}

// Says to the controller that this node can start, and waits until all can.
bool may_start(const Controller* controller) {
  if (controller == nullptr) return true;
  reply(controller->request, {true, std::nullopt});
  return controller->link.wait_for_start();
}

ControllerLink* link_of(const Controller* controller) {
  return controller == nullptr ? nullptr : &controller->link;
}

// ssh passes on only the exit code.
int end_as(const base::ExitStatus& end, const Controller* controller) {
  return controller == nullptr ? exit_as(end) : end.shell_code();
}

std::string remedy_of(const StartFailure& failure, const std::string& program) {
  if (failure.exit_code == base::kExitNotFound) return "command -v " + program + ", or ls -l " + program;
  if (failure.exit_code == base::kExitNotExecutable) return "chmod +x " + program;
  return "ddplaunch --help. ddplaunch --dry-run, with the same options, starts nothing";
}

// Returns the check of the program, if there is one: could it be started?
std::vector<doctor::Check> check_of_program(const Options& options, const std::string& invoked_as,
                                            const std::vector<std::string>& environment) {
  if (options.command.empty()) return {};
  const auto check = [=](const doctor::Node&) -> doctor::Findings {
    const auto plan = plan_of(options, invoked_as, environment, [](const std::string&) {});
    if (!plan) return {doctor::fail(plan.error().message, remedy_of(plan.error(), options.command.front()))};
    return {doctor::ok(plan.value().program + ", " + base::counted(plan.value().workers, "worker"))};
  };
  return {{"program", check}};
}

int run_doctor(const Options& options, const std::string& invoked_as, const std::vector<std::string>& environment,
               const Controller* controller) {
  Log log(with_color(options.log, options.color, environment));
  auto check = NodeCheck::plan(options);
  if (!check) {
    log.write(error(check.error().message));
    return check.error().exit_code;
  }
  if (options.dry_run) return print(describe(check.value().job()));
  hide_auth_token();
  if (!may_start(controller)) return base::kExitOwnFault;
  check.value().check_this_node(options.doctor, options.nproc_per_node,
                                check_of_program(options, invoked_as, environment));
  doctor::NodeResult result = check.value().alone();
  if (check.value().has_several_nodes() && !options.doctor.this_node) {
    Log log_of_check(with_color(check.value().job().log, options.color, environment));
    auto met = check.value().meet_others(log_of_check, link_of(controller));
    if (!met) {
      doctor::Finding failure =
          doctor::fail("the nodes could not be checked together: the messages of ddplaunch say why",
                       "ddplaunch doctor --node on each node, and the same options on all of them");
      failure.check = "answers";
      result.job.findings.front().findings.push_back(std::move(failure));
      print(options.doctor.json ? report_json(result, doctor::kExitFail) : report_text(result));
      const base::ExitStatus& end = met.error().status;
      return end.was_killed() ? end_as(end, controller) : doctor::kExitFail;
    }
    result = std::move(met).value();
  }
  if (!options.doctor.this_node) check.value().keep(result, options.doctor.deep);
  const int exit_code = doctor::exit_code_of(doctor::all_findings(result), options.doctor.strict);
  if (result.node != 0) return exit_code;
  const int failure = print(options.doctor.json ? report_json(result, exit_code) : report_text(result));
  return failure != 0 ? failure : exit_code;
}

// Checks the nodes of this job, and leaves out those that fail. Returns the exit code if the job does not start here.
std::optional<int> check_before(LaunchPlan& job, const Options& options, NodeCheck& check, Log& log,
                                const std::vector<std::string>& environment, const Controller* controller) {
  const bool is_deep = options.check == Check::deep;
  if (!check.finds_kept(job.workers, is_deep))
    check.check_this_node({.checkpoint_dir = "", .deep = is_deep}, job.workers);
  doctor::NodeResult result = check.alone();
  bool joins_late = false;
  if (check.has_several_nodes()) {
    Log log_of_check(with_color(check.job().log, options.color, environment));
    auto met = check.meet_others(log_of_check, link_of(controller));
    // A node that comes late finds the job itself, and is refused as one to check. It may still join that job.
    const bool may_join_late = job.nodes.min < job.nodes.max || job.max_restarts > 0;
    const bool was_refused =
        !met && met.error().cause == wire::CauseCode::cannot_start && met.error().attempts.nodes == 0;
    joins_late = may_join_late && was_refused;
    if (joins_late) log.write({LogLevel::note, LogSource::launcher, "this node looks for a place in the job itself"});
    if (!met && !joins_late) return end_as(met.error().status, controller);
    if (met) result = std::move(met).value();
  }
  doctor::CheckDecision decision = doctor::decide_on_check(result, job.nodes);
  // What is kept has been logged before an earlier job.
  for (const LogLine& line : decision.lines) result.is_kept ? void() : log.write(line);
  if (!result.is_kept) check.keep(result, is_deep);
  // The exit code of a node that is left out must not end the job of the others.
  if (!decision.starts) return decision.is_left_out || joins_late ? 0 : doctor::kExitFail;
  if (job.nodes.several()) job.nodes.expected = decision.nodes;
  return std::nullopt;
}

// Lets these signals end this process.
void accept_signals(const std::vector<int>& signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
}

// A collective that all ranks have called made no progress. Says what is wrong between their GPUs and nodes. Returns
// the variable with which another start would not hang, or "".
std::string check_after_hang(const LaunchPlan& job, EarlierAttempts& attempts, const Options& options, Log& log,
                             const std::vector<std::string>& environment, const Controller* controller) {
  const bool has_several_nodes = attempts.nodes > 1;
  if (attempts.nodes == 0 || (!has_several_nodes && !has_pair_of_gpus(job))) return "";
  auto check = NodeCheck::plan(options);
  if (!check) return "";
  check.value().forget();
  const LogWriter write = [&](const LogLine& line) { log.write(line); };
  write({LogLevel::note, LogSource::hangs, "checking what is between the ranks"});
  check.value().follow(job, attempts.nodes);
  accept_signals(job.ending_signals);  // launch() has blocked them, and no worker runs
  // Other GPUs may be those of other jobs.
  const std::vector<std::string> gpus = gpus_of_workers(job);
  if (!gpus.empty()) ::setenv(wire::env::kCudaVisibleDevices, base::join(gpus, ",").c_str(), 1);
  check.value().check_this_node({.checkpoint_dir = "", .deep = !gpus.empty()}, job.workers);
  doctor::NodeResult result = check.value().alone();
  bool may_fall_back = true;
  if (has_several_nodes) {
    Log log_of_check(with_color(check.value().job().log, options.color, environment));
    auto met = check.value().meet_others(log_of_check, link_of(controller));
    // What one node decides alone would start one node alone.
    may_fall_back = met && met.value().expected == attempts.nodes;
    if (!met) write({LogLevel::warning, LogSource::hangs, "the ways between the nodes could not be checked"});
    if (met) result = std::move(met).value();
  }
  const doctor::HangFindings found = doctor::explain_hang(result);
  for (const LogLine& line : found.lines) write(line);
  add_to_reports(job, attempts, found.lines, write);
  return may_fall_back ? found.fallback : "";
}

// Returns whether a job that has hung starts again, and changes it for that. `fallback` is the variable with which it
// would not hang, or "".
bool starts_again(LaunchPlan& job, EarlierAttempts attempts, const std::string& fallback, Log& log) {
  const int restarts = std::max(0, job.max_restarts - attempts.count + 1);
  if (!job.fallback || (fallback.empty() && restarts == 0)) return false;
  const auto say = [&](const std::string& text) { log.write({LogLevel::warning, LogSource::launcher, text}); };
  job.fallback = false;
  job.max_restarts = restarts;
  if (job.nodes.several()) job.nodes.expected = attempts.nodes;
  job.earlier = std::move(attempts);
  if (fallback.empty()) {
    // The check came in place of a restart.
    --job.max_restarts;
    say("the job starts again, as --max-restarts allows");
  } else {
    job.inherited_environment.insert(job.inherited_environment.begin(), fallback);
    say("the job starts again with " + fallback + ", since the check has shown that this works (--fallback)");
  }
  return true;
}

// Prints, above the table of the benchmark, how much the GPUs of this node can exchange.
int print_what_is_normal(const Options& options) {
  const bool is_json = std::ranges::find(options.command, "--json") != options.command.end();
  const char* const of_slurm = std::getenv("SLURM_NODEID");
  const bool is_first =
      options.node_rank.value_or(0) == 0 && (of_slurm == nullptr || std::string_view(of_slurm) == "0");
  if (is_json || options.dry_run || !is_first) return 0;
  const doctor::Node node = doctor::this_node(0, 1, "");
  if (node.gpus.size() < 2) return 0;
  constexpr std::chrono::seconds kLimit{4};
  const doctor::Check check = {"gpu-links", doctor::check_gpu_links};
  std::string text;
  for (const doctor::Finding& finding : doctor::run_checks(std::span(&check, 1), node, kLimit)) {
    if (finding.grade != doctor::Grade::unknown) text += "# this node: " + base::printable(finding.text) + "\n";
  }
  return print(text);
}

int start_here(Options options, const std::string& invoked_as, const std::vector<std::string>& environment,
               const Controller* controller) {
  if (options.subcommand == "doctor") return run_doctor(options, invoked_as, environment, controller);
  if (options.subcommand == "bench") {
    options.command.front() = our_program(options.command.front());
    if (const int failure = print_what_is_normal(options)) return failure;
  }
  Log log(with_color(options.log, options.color, environment));
  const bool is_checked = options.check != Check::off && !options.dry_run;
  const auto note = [&](const std::string& text) { log.write({LogLevel::warning, LogSource::launcher, text}); };
  auto plan = plan_of(options, invoked_as, environment, note);
  std::optional<NodeCheck> check;
  if (plan && is_checked) {
    auto planned = NodeCheck::plan(options);
    if (!planned) plan = planned.error();
    if (planned) check.emplace(std::move(planned).value());
  }
  hide_auth_token();
  if (!plan) {
    log.write(error(plan.error().message));
    return plan.error().exit_code;
  }
  if (options.dry_run) {
    return print(options.json ? describe_json(plan.value()) : describe(plan.value()));
  }
  if (!has_file(log)) return base::kExitOwnFault;
  if (!may_start(controller)) return base::kExitOwnFault;
  LaunchPlan job = std::move(plan).value();
  if (check) {
    if (const auto end = check_before(job, options, *check, log, environment, controller)) return *end;
  }
  LaunchEnd end = launch(job, log, link_of(controller));
  if (end.cause == wire::CauseCode::transport) {
    const std::string fallback = check_after_hang(job, end.attempts, options, log, environment, controller);
    if (starts_again(job, std::move(end.attempts), fallback, log)) end = launch(job, log, link_of(controller));
  }
  return end_as(end.status, controller);
}

// Returns the options of a job on this node alone.
Options without_other_nodes(Options options) {
  options.min_nodes = options.max_nodes = 1;
  options.node_rank.reset();
  options.hosts.clear();
  options.host_file.clear();
  options.scheduler = "none";
  options.rdzv_backend.reset();
  options.rdzv_endpoint.clear();
  options.master_addr.clear();
  options.master_port.reset();
  return options;
}

int run(int argc, const char* const* argv, const Controller* controller);

// A launcher on another node has started this one over ssh, and sends a launch request.
int run_on_host() {
  Log log({});
  auto link = ControllerLink::take_over_standard_input();
  if (!link) {
    log.write(error(link.error().message));
    return base::kExitUsage;
  }
  const auto request = link.value()->wait_for_request();
  if (!request) {
    log.write(error(request.error().message));
    return base::kExitUsage;
  }
  int exit_code = base::kExitUsage;
  if (const auto failure = carry_out(request.value())) {
    log.write(error(failure->message));
  } else {
    const Controller controller{*link.value(), request.value()};
    std::vector<const char*> words;
    for (const std::string& word : request.value().words) words.push_back(word.c_str());
    exit_code = run(static_cast<int>(words.size()), words.data(), &controller);
  }
  reply(request.value(), {false, exit_code});
  return exit_code;
}

int run(int argc, const char* const* argv, const Controller* controller) {
  const std::vector<std::string> environment = environment_lines();
  const auto parsed = parse_command_line(argc, argv, environment);
  if (const auto* information = std::get_if<Information>(&parsed)) {
    return print(information->text);
  }
  if (const auto* mistake = std::get_if<UsageError>(&parsed)) {
    Log(with_color({}, Color::automatic, environment)).write(error(mistake->message));
    return base::kExitUsage;
  }
  if (const auto* store = std::get_if<StoreOptions>(&parsed)) {
    Log log(with_color(store->log, Color::automatic, environment));
    if (!has_file(log) || !has_descriptors(0, "the store command", log)) return base::kExitOwnFault;
    return run_store_command(*store, environment, log, print);
  }
  if (const auto* report = std::get_if<ReportOptions>(&parsed)) {
    Log log(with_color(report->log, Color::automatic, environment));
    return has_file(log) ? run_report_command(*report, log, print) : base::kExitOwnFault;
  }
  if (const auto* top = std::get_if<TopOptions>(&parsed)) {
    Log log(with_color({}, Color::automatic, environment));
    return run_top_command(*top, environment, log, print);
  }
  if (const auto* ls = std::get_if<LsOptions>(&parsed)) {
    Log log(with_color({}, Color::automatic, environment));
    return run_ls_command(*ls, environment, log, print);
  }
  if (const auto* explain = std::get_if<ExplainOptions>(&parsed)) {
    Log log(with_color({}, Color::automatic, environment));
    return run_explain_command(*explain, log, print);
  }
  if (std::holds_alternative<OnNode>(parsed)) return doctor::run_node_worker();
  if (std::holds_alternative<OnHost>(parsed)) return run_on_host();
  auto options = std::get<Options>(parsed);
  options.command_line.assign(argv, argv + argc);
  if (options.doctor.this_node) options = without_other_nodes(std::move(options));
  return options.over_ssh() ? start_on_hosts(options, environment)
                            : start_here(options, argv[0], environment, controller);
}

}  // namespace

int run_command(int argc, const char* const* argv) {
  // A closed terminal or pipe must not end the launcher while workers run.
  ::signal(SIGPIPE, SIG_IGN);
  // A file that reaches the limit of ulimit -f is reported like a full disk.
  ::signal(SIGXFSZ, SIG_IGN);
  open_standard_descriptors();
  raise_descriptor_limit();
  try {
    return run(argc, argv, nullptr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ddplaunch: error: internal error: %s. Please report it.\n", error.what());
    return base::kExitOwnFault;
  }
}

}  // namespace ddp::launcher
