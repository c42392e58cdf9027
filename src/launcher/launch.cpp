#include "launcher/launch.h"

#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigset_t and friends are POSIX
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "base/exit_code.h"
#include "base/file.h"
#include "base/unique_fd.h"
#include "launcher/job_views.h"
#include "launcher/limits.h"
#include "launcher/run/job/cause_code.h"
#include "launcher/run/job/job_driver.h"
#include "launcher/run/job/save_notices.h"
#include "launcher/run/output/output_pump.h"
#include "launcher/run/process/guardian.h"
#include "launcher/run/process/launcher_signals.h"
#include "launcher/run/process/preloader.h"
#include "launcher/run/process/private_directory.h"
#include "launcher/run/process/process_host.h"
#include "launcher/run/process/run_directory.h"
#include "launcher/run/watchdog/watchdog.h"
#include "launcher/see/report/job_reporter.h"
#include "launcher/start/log/file_output.h"
#include "wire/json_fields.h"

namespace ddp::launcher {

BOOST_DESCRIBE_STRUCT(EarlierAttempts, (), (count, nodes, node_rank, node_name, events))

namespace {

// Holds what guardian and supervisor both know. It is created before the processes separate, so that each of them can
// remove what the other has made.
struct Shared {
  const LaunchPlan& plan;
  Log& log;
  ControllerLink* controller;
  std::vector<int> signals;
  RunDirectory directory;
  WorkerCgroup cgroup;
  base::UniqueFd left;  // a file in memory with what the supervisor says at the end: see LaunchEnd

  void remove_traces() {
    directory.remove_if_temporary();
    cgroup.remove();
  }
};

// What the supervisor leaves to the process that has started it.
struct Left {
  int cause = 0;  // wire::CauseCode
  EarlierAttempts attempts;
};
BOOST_DESCRIBE_STRUCT(Left, (), (cause, attempts))

void leave(const Shared& shared, wire::CauseCode cause, EarlierAttempts attempts) {
  const std::string text = wire::json_of(Left{static_cast<int>(cause), std::move(attempts)}).dump();
  if (shared.left) write_all(shared.left.get(), text, std::chrono::milliseconds(0));
}

// Returns nothing if the supervisor was killed.
Left left_by_supervisor(const Shared& shared) {
  Left left;
  const wire::Json json = wire::Json::parse(base::read_file("/proc/self/fd/" + std::to_string(shared.left.get())),
                                            nullptr, /*allow_exceptions=*/false);
  if (!json.is_discarded()) wire::read_json(json, left);
  return left;
}

// Unblocks signals as long as it exists. It must be destroyed before the handlers of the signals. A later signal would
// have its default action, and end a process that only has to remove its files.
class UnblockedSignals {
 public:
  UnblockedSignals() { change(SIG_UNBLOCK); }
  ~UnblockedSignals() { change(SIG_BLOCK); }
  UnblockedSignals(const UnblockedSignals&) = delete;
  UnblockedSignals& operator=(const UnblockedSignals&) = delete;

 private:
  static void change(int how) {
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(how, &all, nullptr);
  }
};

base::ExitStatus own_fault(Log& log, const base::Failure& failure) {
  log.write_last({LogLevel::error, LogSource::launcher, failure.message});
  return base::ExitStatus::exited(base::kExitOwnFault);
}

// The loss of the connection is treated like the loss of a terminal.
SignalArrived connection_lost(const LaunchPlan& plan) {
  const auto& ending = plan.ending_signals;
  const bool has_hangup = ending.empty() || base::contains(ending, SIGHUP);
  return {has_hangup ? SIGHUP : ending.front(), "the connection to the launcher that started the job is lost"};
}

void log_details(const Shared& shared, bool has_cgroup) {
  const auto detail = [&](const std::string& text) { shared.log.write({LogLevel::debug, LogSource::launcher, text}); };
  detail("run " + shared.plan.run_id + ", supervisor pid " + std::to_string(::getpid()) + ", guardian pid " +
         std::to_string(::getppid()));
  if (!shared.directory.path().empty()) detail("files of the run are in " + shared.directory.path());
  if (const auto& failure = shared.directory.socket_failure()) {
    shared.log.write({LogLevel::warning, LogSource::hangs,
                      "hangs inside PyTorch are not detected, because there is no place for PyTorch's sockets: " +
                          failure->message + ". Set TMPDIR to a directory with a short path that can be written."});
  }
  detail(std::string("workers have ") + (has_cgroup ? "a cgroup" : "no cgroup") + " of their own");
}

// Works until the job is over. If the job is to stop (SIGTSTP), stops as soon as the workers have.
void run_to_end(JobDriver& job, net::EventLoop& loop, OutputPump& output, bool& is_stopping) {
  while (!job.is_over()) {
    job.has_work() ? loop.poll() : loop.run();
    job.work();
    if (job.has_work() || !std::exchange(is_stopping, false)) continue;
    output.pause_footer(true);
    answer_stop();
  }
}

// Runs the supervisor until its end, for which the guardian waits.
base::ExitStatus supervise_job(Shared& shared, base::UniqueFd lifeline) {
  Log& log = shared.log;
  net::EventLoop loop;
  // These are events from outside. They are caught until the very end, so that neither processes nor files are left
  // behind. They have an effect while the job runs.
  JobDriver* driver = nullptr;
  int requests = 0;  // number of requests to end
  const auto deliver = [&](const Event& event) {
    requests += request_in(event, shared.plan.ending_signals) ? 1 : 0;
    if (driver != nullptr) driver->deliver(event);
  };
  // A job that waits for input does not continue in the background. If it cannot be stopped, because no shell could
  // continue it, it is continued at once.
  ProcessHost* readers = nullptr;
  bool is_stopping = false;  // the guardian stops when the workers have stopped, and gives the shell its terminal back
  auto stopped_again_at = std::chrono::steady_clock::time_point();
  const auto signal_watch = loop.on_signals(shared.signals, [&](int signal) {
    if (signal == SIGTSTP || signal == SIGCONT) is_stopping = signal == SIGTSTP;
    const auto now = std::chrono::steady_clock::now();
    const bool may_stop = now - stopped_again_at >= limits::kSecondRequest;
    if (signal != SIGCONT || !may_stop || readers == nullptr || !readers->lacks_terminal()) {
      return deliver(SignalArrived{signal});
    }
    stopped_again_at = now;
    stop_again();
  });
  const UnblockedSignals unblocked;
  const auto lifeline_watch = loop.watch_readable(lifeline.get(), [&] { deliver(GuardianLost{}); });

  if (shared.controller != nullptr) {
    shared.controller->watch(
        loop, {[&](int signal) { deliver(SignalArrived{signal}); }, [&] { deliver(connection_lost(shared.plan)); }});
  }

  if (const auto failure = shared.directory.make()) return own_fault(log, *failure);
  LogWriter write = [&](const LogLine& line) { log.write(line); };
  auto events = LineFile::open("--event-log", shared.plan.event_log, [&](const std::string& why) {
    write({LogLevel::warning, LogSource::launcher, why});
  });
  if (!events) return own_fault(log, events.error());
  const bool has_cgroup = shared.cgroup.make();
  std::optional<Preloader> preloader;
  if (!shared.plan.preload.empty()) {
    preloader.emplace(loop, make_preload_spec(shared.plan),
                      PreloaderCallbacks{.note =
                                             [&](const std::string& text) {
                                               write({LogLevel::note, LogSource::workers, text});
                                             },
                                         .is_decided = [&] { loop.stop(); }});
  }
  const auto processes =
      make_process_host(loop, has_cgroup ? &shared.cgroup : nullptr, preloader ? &*preloader : nullptr);
  readers = processes.get();
  RankProbe probe;
  log_details(shared, has_cgroup);
  OutputPump output(loop, shared.plan.output, {shared.plan.host_name, shared.plan.role});
  output.on_notice = [&](const std::string& text) { log.write({LogLevel::warning, LogSource::output, text}); };
  output.on_console_closed = [&] {
    if (shared.plan.end_on_closed_console) deliver(ConsoleClosed{});
  };
  log.before_line([&](std::chrono::milliseconds most) { output.before_own_line(most); });
  log.while_waiting([&, before = std::optional<int>()]() mutable {
    if (!before) before = requests;
    loop.poll();
    return requests != *before;
  });
  const auto size_watch = loop.on_signals(std::array{SIGWINCH}, [&](int) { output.copy_console_size(); });
  const auto continue_watch = loop.on_signals(std::array{SIGCONT}, [&](int) { output.pause_footer(false); });
  JobReporter reporter(shared.plan, shared.directory, log, std::move(events).value(),
                       [&](int local_rank) { return output.last_lines(local_rank); });
  write = reporter.observer().log;
  JobViews views({loop, shared.plan, probe, output, write, preloader ? &*preloader : nullptr});
  reporter.history = [&] { return views.history(); };
  base::ExitStatus end = base::ExitStatus::exited(base::kExitOwnFault);
  const auto workers = make_worker_group(
      *processes, probe, shared.plan, shared.directory, output, [&] { loop.poll(); },
      [&](const LogLine& line) { write(line); });
  const auto open_link = [&](JobLink::Callbacks callbacks) { return JobLink::open(loop, shared.plan, callbacks); };
  const auto open_watchdog = [&](RankExchange& exchange, const Placement& placement,
                                 std::function<void(const HangNews&)> news) {
    views.begin_watch(placement, exchange.is_coordinator());
    return make_watchdog(
        {loop, *processes, probe, output, shared.plan, exchange, reporter.observer().log, std::move(news), &views},
        placement);
  };
  views.begin();
  if (const auto failure = reporter.begin()) {
    log.write_last({LogLevel::error, LogSource::launcher, failure->message});
  } else {
    JobDriver job({loop, shared.plan, *workers, open_link, open_watchdog, views.before(reporter.observer()),
                   [&] { loop.stop(); }});
    driver = &job;
    views.set_driver(job);
    const SaveNotices notices(loop, shared.plan.save_file, shared.plan.save_command,
                              {[&](const std::string& what) {
                                 deliver(SignalArrived{shared.plan.save_signals.front(), what});
                               },
                               [&](const std::string& why) {
                                 write({LogLevel::warning, LogSource::launcher, why});
                               }});
    run_to_end(job, loop, output, is_stopping);
    driver = nullptr;
    views.end();
    if (const auto& outcome = job.result()) {
      end = outcome.value().status;
      reporter.job_ended(outcome.value(), end);
      const wire::CauseCode cause = code_of(outcome.value());
      leave(shared, cause, reporter.attempts(cause == wire::CauseCode::transport));
    } else {
      reporter.job_failed(outcome.error());
    }
  }
  log.before_line(nullptr);
  log.while_waiting(nullptr);
  return end;
}

// Returns whether the guardian, which blocks all signals, has received a signal to end.
bool is_end_pending(const LaunchPlan& plan) {
  sigset_t pending;
  ::sigpending(&pending);
  return std::ranges::any_of(plan.ending_signals, [&](int signal) { return ::sigismember(&pending, signal) == 1; });
}

// Returns whether a signal that requests the end has ended the supervisor.
bool was_requested(const base::ExitStatus& end, const LaunchPlan& plan) {
  return end.was_killed_by(SIGPIPE) || base::contains(plan.ending_signals, end.signal());
}

}  // namespace

LaunchEnd launch(const LaunchPlan& plan, Log& log, ControllerLink* controller) {
  auto socket_roots = plan.python_hook.empty() ? std::vector<std::string>() : roots_of_sockets();
  Shared shared{plan,
                log,
                controller,
                signals_to_care_for(plan.ending_signals),
                RunDirectory(plan.files, plan.run_id, std::move(socket_roots)),
                {},
                base::UniqueFd(::memfd_create("ddplaunch-end", MFD_CLOEXEC))};
  const base::ExitStatus end =
      run_guarded({shared.signals, plan.ending_signals, &shared.cgroup}, [&](base::UniqueFd lifeline) {
        const base::ExitStatus status = supervise_job(shared, std::move(lifeline));
        shared.remove_traces();
        return status;
      });
  shared.remove_traces();
  Left left = left_by_supervisor(shared);
  if (!end.was_killed() || was_requested(end, plan))
    return {end, static_cast<wire::CauseCode>(left.cause), std::move(left.attempts)};
  log.while_waiting([&] { return is_end_pending(plan); });
  return {own_fault(log, {"the supervising process of ddplaunch was " + end.describe() +
                          "; all processes that it had started were terminated"})};
}

}  // namespace ddp::launcher
