#include "launcher/run/process/launcher_signals.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "support/catch.h"

using namespace ddp::launcher;

namespace {

bool cares_for(int signal) {
  const std::vector<int> signals = signals_to_care_for({SIGTERM});
  return std::find(signals.begin(), signals.end(), signal) != signals.end();
}

}  // namespace

TEST_CASE("a signal that was ignored at the start stays ignored") {
  CHECK(cares_for(SIGHUP));
  const auto before = std::signal(SIGHUP, SIG_IGN);
  CHECK_FALSE(cares_for(SIGHUP));
  std::signal(SIGHUP, before);
}

TEST_CASE("a job in the background whose shell ignores SIGQUIT can still be asked for a report") {
  const auto before = std::signal(SIGQUIT, SIG_IGN);
  CHECK(cares_for(SIGQUIT));
  const std::vector<int> as_torchrun = signals_to_care_for({SIGTERM, SIGQUIT});
  CHECK(std::find(as_torchrun.begin(), as_torchrun.end(), SIGQUIT) == as_torchrun.end());
  std::signal(SIGQUIT, before);
}

TEST_CASE("faults in the launcher itself keep their default signal actions") {
  for (const int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGKILL, SIGSTOP, SIGCHLD, SIGPIPE}) {
    CHECK_FALSE(cares_for(signal));
  }
  for (const int signal : {SIGUSR1, SIGUSR2, SIGINT, SIGQUIT, SIGTSTP, SIGRTMIN, SIGRTMAX}) CHECK(cares_for(signal));
}

TEST_CASE("a process can die of a signal even if the signal is blocked and caught") {
  for (const int signal : {SIGINT, SIGTERM, SIGQUIT, SIGPIPE}) {
    const pid_t child = ::fork();
    if (child == 0) {
      std::signal(signal, SIG_IGN);
      sigset_t all;
      ::sigfillset(&all);
      ::sigprocmask(SIG_SETMASK, &all, nullptr);
      ::_exit(exit_as(ddp::base::ExitStatus::killed(signal)));
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == signal);
    CHECK_FALSE(WCOREDUMP(status));
  }
  CHECK(exit_as(ddp::base::ExitStatus::exited(9)) == 9);
}
