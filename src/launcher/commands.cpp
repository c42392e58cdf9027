#include "launcher/commands.h"

#include <csignal>
#include <cstdio>
#include <exception>
#include <functional>

#include "base/exit_code.h"
#include "base/limits.h"
#include "launcher/cli/parse.h"
#include "launcher/plan/host_facts.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/process/process_host.h"
#include "launcher/process/run_directory.h"
#include "launcher/rendezvous/rendezvous.h"
#include "launcher/report/failure_summary.h"
#include "launcher/report/log_sink.h"
#include "launcher/supervise/supervisor.h"

namespace ddp::launcher {
namespace {

// Those that the launcher was started with as ignored (nohup, a shell's background job) stay ignored.
std::vector<int> signals_to_catch() {
  std::vector<int> signals;
  sigset_t blocked;
  sigemptyset(&blocked);
  for (const int signal : {SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2}) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN) continue;
    signals.push_back(signal);
    sigaddset(&blocked, signal);
  }
  ::sigprocmask(SIG_UNBLOCK, &blocked, nullptr);
  return signals;
}

int launch(const LaunchPlan& plan, LogSink& log) {
  net::EventLoop loop;
  // Caught until the very end, so that neither processes nor files are left behind; acted on while the job runs.
  std::function<void(int)> on_signal;
  const auto signal_watch = loop.on_signals(signals_to_catch(), [&](int signal) {
    if (on_signal) on_signal(signal);
  });
  int warnings = 0;
  const auto rendezvous = Rendezvous::open(loop, plan, [&](const std::string& peer, const std::string& reason) {
    if (++warnings <= limits::kStoreWarnings) log.warning("the store sent " + peer + " away: " + reason);
    if (warnings == limits::kStoreWarnings) log.warning("more of these are not shown");
  });
  if (!rendezvous) {
    log.error(rendezvous.error().message);
    return base::kExitOwnFault;
  }
  const auto directory = RunDirectory::create(plan.workers);
  if (!directory) {
    log.error(directory.error().message);
    return base::kExitOwnFault;
  }
  const NodeAssignment& assignment = rendezvous.value()->assignment();
  const auto processes = make_process_host(loop);
  log.info(start_line(plan, assignment));
  const JobOutcome outcome = supervise({loop, *processes, plan, assignment, *directory.value(),
                                        [&](const std::string& line) { log.error(line); }, on_signal});

  for (const std::string& line : failure_summary(outcome, plan)) log.error(line);
  const std::vector<pid_t> leftovers = processes->end_leftovers();
  if (!leftovers.empty()) {
    log.error(std::to_string(leftovers.size()) + " of the job's processes cannot be killed, first pid " +
              std::to_string(leftovers.front()));
  }
  return outcome.exit_code;
}

int print(const std::string& text) {
  const bool written = std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  return written ? 0 : base::kExitOwnFault;
}

int run(int argc, const char* const* argv) {
  const auto parsed = parse_command_line(argc, argv);
  if (const auto* information = std::get_if<Information>(&parsed)) {
    return print(information->text);
  }
  if (const auto* mistake = std::get_if<UsageError>(&parsed)) {
    LogSink(false).error(mistake->message);
    return base::kExitUsage;
  }
  const auto& options = std::get<Options>(parsed);
  LogSink log(options.quiet);
  const auto plan = make_launch_plan(options, gather_host_facts(options));
  if (!plan) {
    log.error(plan.error().message);
    return plan.error().exit_code;
  }
  if (options.dry_run) {
    return print(options.json ? describe_json(plan.value()) : describe(plan.value()));
  }
  return launch(plan.value(), log);
}

}  // namespace

int run_command(int argc, const char* const* argv) {
  // A closed terminal or pipe must not end the launcher while workers run.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ddplaunch: internal error: %s. Please report it.\n", error.what());
    return base::kExitOwnFault;
  }
}

}  // namespace ddp::launcher
