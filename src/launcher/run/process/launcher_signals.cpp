#include "launcher/run/process/launcher_signals.h"

#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigset_t and friends are POSIX
#include <sys/prctl.h>
#include <unistd.h>

#include "base/signals.h"

namespace ddp::launcher {

std::vector<int> signals_to_care_for(const std::vector<int>& ending) {
  std::vector<int> candidates = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM, SIGUSR1,   SIGUSR2, SIGALRM, SIGVTALRM,
                                 SIGPROF, SIGPOLL, SIGPWR,  SIGXCPU, SIGSTKFLT, SIGTSTP, SIGCONT, SIGWINCH};
  for (int signal = SIGRTMIN; signal <= SIGRTMAX; ++signal) candidates.push_back(signal);
  std::vector<int> signals;
  for (const int signal : candidates) {
    struct sigaction action {};
    const bool is_ignored = ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
    const bool is_question = signal == SIGQUIT && !base::contains(ending, SIGQUIT);
    if (is_ignored && !is_question) continue;
    signals.push_back(signal);
  }
  return signals;
}

int exit_as(const base::ExitStatus& status) {
  if (!status.was_killed()) return status.shell_code();
  const int signal = status.signal();
  ::prctl(PR_SET_DUMPABLE, 0);
  ::signal(signal, SIG_DFL);
  sigset_t only;
  ::sigemptyset(&only);
  ::sigaddset(&only, signal);
  ::kill(::getpid(), signal);
  ::sigprocmask(SIG_UNBLOCK, &only, nullptr);
  return status.shell_code();
}

}  // namespace ddp::launcher
