#include "launcher/commands.h"

#include <fcntl.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigset_t and friends are POSIX
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>

#include "base/exit_code.h"
#include "base/limits.h"
#include "launcher/cli/parse.h"
#include "launcher/plan/host_facts.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/process/guardian.h"
#include "launcher/process/launcher_signals.h"
#include "launcher/process/process_host.h"
#include "launcher/process/run_directory.h"
#include "launcher/report/failure_summary.h"
#include "launcher/report/log_sink.h"
#include "launcher/supervise/job.h"

namespace ddp::launcher {
namespace {

void unblock_all_signals() {
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_UNBLOCK, &all, nullptr);
}

// The supervisor's whole life; the guardian waits for its end.
base::ExitStatus run_supervisor(const LaunchPlan& plan, LogSink& log, RunDirectory& directory, WorkerCgroup& cgroup,
                                const std::vector<int>& signals, base::UniqueFd lifeline) {
  net::EventLoop loop;
  // Events from outside. Caught until the very end, so that neither processes nor files are left behind; acted on while
  // the job runs.
  std::function<void(const Event&)> inbox;
  const auto deliver = [&](const Event& event) {
    if (inbox) inbox(event);
  };
  const auto signal_watch = loop.on_signals(signals, [&](int signal) { deliver(SignalArrived{signal}); });
  unblock_all_signals();
  const auto lifeline_watch = loop.watch_readable(lifeline.get(), [&] { deliver(GuardianLost{}); });
  if (const auto failure = directory.make()) {
    log.error(failure->message);
    return base::ExitStatus::exited(base::kExitOwnFault);
  }
  const auto processes = make_process_host(loop, cgroup.make() ? &cgroup : nullptr);
  JobObserver observer;
  observer.attempt_begins = [&](const NodeAssignment& assignment) {
    if (assignment.restart_count == 0) log.info(start_line(plan, assignment));
  };
  observer.event = [](const Event&) {};
  observer.attempt_ended = [&](const JobOutcome& outcome, const std::string& next) {
    for (const std::string& line : failure_summary(outcome, plan, {})) log.error(line);
    if (!next.empty()) log.error("  " + next);
  };
  observer.tell = [&](const std::string& line) { log.error(line); };
  observer.warn = [&](const std::string& line) { log.warning(line); };
  const auto outcome = run_job({loop, *processes, plan, directory, inbox, observer});
  directory.remove_if_temporary();
  cgroup.remove();
  if (!outcome) {
    log.error(outcome.error().message);
    return base::ExitStatus::exited(base::kExitOwnFault);
  }
  if (outcome.value().signal) return base::ExitStatus::killed(*outcome.value().signal);
  return base::ExitStatus::exited(outcome.value().exit_code);
}

// Whether the supervisor has ended by a signal because somebody asked it to.
bool is_request(const base::ExitStatus& end, const LaunchPlan& plan) {
  const auto is_meant = [&](int signal) { return end.was_killed_by(signal); };
  return std::any_of(plan.ending_signals.begin(), plan.ending_signals.end(), is_meant) || end.was_killed_by(SIGPIPE);
}

int launch(const LaunchPlan& plan, LogSink& log) {
  const std::vector<int> signals = signals_to_care_for();
  // Named before the processes part, so that either of them can remove what the other has made.
  RunDirectory directory(plan.log_dir, plan.run_id);
  WorkerCgroup cgroup;
  const base::ExitStatus end = run_guarded({signals, plan.ending_signals, &cgroup}, [&](base::UniqueFd lifeline) {
    return run_supervisor(plan, log, directory, cgroup, signals, std::move(lifeline));
  });
  directory.remove_if_temporary();
  cgroup.remove();
  if (end.was_killed() && !is_request(end, plan)) {
    log.error("the supervising process of ddplaunch was " + end.describe() + "; everything it had started was ended");
    return base::kExitOwnFault;
  }
  return end_like(end);
}

int print(const std::string& text) {
  const bool written = std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  return written ? 0 : base::kExitOwnFault;
}

// A pipe that were made as descriptor 1 would be lost in the worker that gets it.
void open_standard_descriptors() {
  for (int fd = 0; fd < 3; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0) static_cast<void>(::open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY));
  }
}

int run(int argc, const char* const* argv) {
  std::vector<std::string> environment;
  for (char** line = environ; line != nullptr && *line != nullptr; ++line) environment.emplace_back(*line);
  const auto parsed = parse_command_line(argc, argv, environment);
  if (const auto* information = std::get_if<Information>(&parsed)) {
    return print(information->text);
  }
  if (const auto* mistake = std::get_if<UsageError>(&parsed)) {
    LogSink(false).error(mistake->message);
    return base::kExitUsage;
  }
  const auto& options = std::get<Options>(parsed);
  LogSink log(options.quiet);
  const auto plan = make_launch_plan(options, gather_host_facts(options.command.front()));
  if (!plan) {
    log.error(plan.error().message);
    return plan.error().exit_code;
  }
  if (options.dry_run) {
    return print(describe(plan.value()));
  }
  return launch(plan.value(), log);
}

}  // namespace

int run_command(int argc, const char* const* argv) {
  // A closed terminal or pipe must not end the launcher while workers run.
  std::signal(SIGPIPE, SIG_IGN);
  open_standard_descriptors();
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ddplaunch: internal error: %s. Please report it.\n", error.what());
    return base::kExitOwnFault;
  }
}

}  // namespace ddp::launcher
