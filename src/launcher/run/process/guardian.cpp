// The guardian only waits, so that nothing in it can fail: it has no threads and no sockets, and takes no memory after
// the start. It has to be the ancestor, because a guardian that was a child of the supervisor would adopt no processes.
#include "launcher/run/process/guardian.h"

#include <fcntl.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigset_t and friends are POSIX
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <set>
#include <system_error>

#include "base/signals.h"
#include "launcher/limits.h"
#include "launcher/run/process/launcher_signals.h"
#include "launcher/run/process/process_tree.h"

namespace ddp::launcher {
namespace {

using Clock = std::chrono::steady_clock;

sigset_t set_of(const std::vector<int>& signals) {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : signals) ::sigaddset(&set, signal);
  return set;
}

class Guardian {
 public:
  Guardian(const GuardianOptions& options, pid_t supervisor, std::set<pid_t> foreign)
      : options_(options), supervisor_(supervisor), foreign_(std::move(foreign)) {}

  // Waits for these signals, which are blocked.
  base::ExitStatus watch(const sigset_t& set) {
    while (true) {
      siginfo_t info{};
      const int signal = ::sigwaitinfo(&set, &info);
      if (signal == SIGCHLD) {
        if (const auto end = reap()) return killed_for_ > 0 ? base::ExitStatus::killed(killed_for_) : *end;
      } else if (signal == SIGTSTP) {
        stop_together(signal);
      } else if (signal == SIGTTIN) {
        if (requests_ == 0) stop_together(signal);
      } else if (signal > 0) {
        pass_on(signal);
      }
    }
  }

  void sweep() {
    if (options_.cgroup != nullptr) options_.cgroup->kill_all(limits::kLeftoverWait);
    kill_descendants(foreign_, limits::kLeftoverWait);
  }

 private:
  // Returns how the supervisor ended, or std::nullopt if it has not ended. Reaps all other children: as process 1 of a
  // container, the guardian gets all of its orphans.
  std::optional<base::ExitStatus> reap() {
    std::optional<base::ExitStatus> end;
    while (true) {
      int status = 0;
      const pid_t pid = ::waitpid(-1, &status, WNOHANG);
      if (pid <= 0) return end;
      foreign_.erase(pid);
      if (pid != supervisor_) continue;
      end = base::ExitStatus::from_wait(status);
    }
  }

  void pass_on(int signal) {
    ::kill(supervisor_, signal);
    if (!base::contains(options_.ending_signals, signal)) return;
    ::kill(supervisor_, SIGCONT);  // a stopped supervisor could not react
    const auto now = Clock::now();
    if (requests_ > 0 && now - last_request_ < limits::kSecondRequest) return;
    last_request_ = now;
    // The first request terminates the workers, and the second one kills them. A user who asks again wants the terminal
    // back.
    if (++requests_ < 3) return;
    killed_for_ = signal;
    ::kill(supervisor_, SIGKILL);
  }

  // `reason` is the signal whose default action stops this process, which the shell shows.
  void stop_together(int reason) {
    ::kill(supervisor_, SIGTSTP);
    await_answer();
    // Stops with the default action of the signal, which has no effect if no shell could continue this process.
    const sigset_t stop = set_of({reason});
    ::kill(::getpid(), reason);
    ::sigprocmask(SIG_UNBLOCK, &stop, nullptr);
    ::sigprocmask(SIG_BLOCK, &stop, nullptr);
    ::kill(supervisor_, SIGCONT);
  }

  static void await_answer() {
    const sigset_t answer = set_of({SIGCHLD});
    const timespec limit{std::chrono::seconds(limits::kStopAnswer).count(), 0};
    // The signal may also report the end of a process, which watch() must learn of.
    if (::sigtimedwait(&answer, nullptr, &limit) == SIGCHLD) ::kill(::getpid(), SIGCHLD);
  }

  const GuardianOptions& options_;
  const pid_t supervisor_;
  std::set<pid_t> foreign_;
  int requests_ = 0;
  int killed_for_ = 0;  // the signal for which the guardian killed the supervisor
  Clock::time_point last_request_;
};

[[noreturn]] void be_supervisor(const std::function<base::ExitStatus(base::UniqueFd)>& supervise,
                                base::UniqueFd lifeline) {
  // The terminal's signals do not reach the supervisor directly. It gets each of them once, through the guardian.
  ::setsid();
  // A stopped supervisor could not notice the end of its guardian.
  ::prctl(PR_SET_PDEATHSIG, SIGCONT);
  const int code = exit_as(supervise(std::move(lifeline)));
  std::exit(code);  // NOLINT(concurrency-mt-unsafe): the last act of the process
}

}  // namespace

base::ExitStatus run_guarded(const GuardianOptions& options,
                             const std::function<base::ExitStatus(base::UniqueFd lifeline)>& supervise) {
  std::vector<int> signals = options.signals;
  signals.insert(signals.end(), {SIGCHLD, SIGTTIN});
  const sigset_t blocked = set_of(signals);
  ::sigprocmask(SIG_BLOCK, &blocked, nullptr);
  // If this process was started with SIGCHLD ignored, the kernel would reap the supervisor, and the guardian would wait
  // for it forever.
  ::signal(SIGCHLD, SIG_DFL);
  become_subreaper();
  // Children that this process had before it became a launcher (sh -c 'x & exec ddplaunch …') are not part of the job.
  const std::vector<pid_t> before = descendants(::getpid(), {});
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::system_category(), "pipe");
  base::UniqueFd lifeline(ends[0]);
  base::UniqueFd life(ends[1]);
  const pid_t supervisor = ::fork();
  if (supervisor < 0) throw std::system_error(errno, std::system_category(), "fork");
  if (supervisor == 0) {
    life.reset();
    be_supervisor(supervise, std::move(lifeline));
  }
  lifeline.reset();
  Guardian guardian(options, supervisor, {before.begin(), before.end()});
  const base::ExitStatus end = guardian.watch(blocked);
  guardian.sweep();
  return end;
}

void answer_stop() {
  ::kill(::getppid(), SIGCHLD);
}

void stop_again() {
  ::kill(::getppid(), SIGTTIN);
}

}  // namespace ddp::launcher
