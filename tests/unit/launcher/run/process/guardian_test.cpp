#include "launcher/run/process/guardian.h"

#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <functional>

#include "launcher/run/process/launcher_signals.h"
#include "support/catch.h"

using namespace ddp::launcher;
using ddp::base::ExitStatus;

namespace {

// Runs a guardian in a child process. Returns the raw status from waitpid.
int run_guardian(const std::function<ExitStatus(ddp::base::UniqueFd)>& supervise, std::vector<int> signals = {}) {
  const pid_t process = ::fork();
  if (process == 0) {
    const GuardianOptions options{std::move(signals), {SIGTERM}, nullptr};
    ::_exit(exit_as(run_guarded(options, supervise)));
  }
  int status = 0;
  REQUIRE(::waitpid(process, &status, 0) == process);
  return status;
}

}  // namespace

TEST_CASE("a guardian exits as its supervisor does") {
  const int exited = run_guardian([](auto) { return ExitStatus::exited(7); });
  CHECK(WIFEXITED(exited));
  CHECK(WEXITSTATUS(exited) == 7);
  const int killed = run_guardian([](auto) { return ExitStatus::killed(SIGTERM); });
  CHECK(WIFSIGNALED(killed));
  CHECK(WTERMSIG(killed) == SIGTERM);
}

TEST_CASE("a guardian that was started with SIGCHLD ignored notices the exit of its supervisor") {
  const pid_t process = ::fork();
  if (process == 0) {
    ::alarm(20);
    ::signal(SIGCHLD, SIG_IGN);
    ::_exit(run_guarded({{}, {}, nullptr}, [](auto) { return ExitStatus::exited(7); }).shell_code());
  }
  int status = 0;
  REQUIRE(::waitpid(process, &status, 0) == process);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
}

TEST_CASE("processes that a killed supervisor leaves are killed in every session") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const int status = run_guardian([&](auto) -> ExitStatus {
    if (::fork() == 0) {
      ::setsid();
      while (true) ::pause();
    }
    ::kill(::getpid(), SIGKILL);
    return ExitStatus::exited(0);
  });
  CHECK(WIFSIGNALED(status));
  ::close(ends[1]);
  char byte = 0;
  CHECK(::read(ends[0], &byte, 1) == 0);  // no process holds the other end any more
  ::close(ends[0]);
}

TEST_CASE("a supervisor notices the exit of its guardian") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  run_guardian([&](ddp::base::UniqueFd lifeline) {
    ::kill(::getppid(), SIGKILL);
    char byte = 0;
    static_cast<void>(!::read(lifeline.get(), &byte, 1));
    static_cast<void>(!::write(ends[1], "x", 1));
    return ExitStatus::exited(0);
  });
  char byte = 0;
  CHECK(::read(ends[0], &byte, 1) == 1);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_CASE("a third request kills a supervisor that does not respond") {
  const int status = run_guardian(
      [](auto) -> ExitStatus {
        while (true) {
          ::kill(::getppid(), SIGTERM);
          ::usleep(600'000);
        }
      },
      {SIGTERM});
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGTERM);
}

TEST_CASE("on SIGTSTP the guardian stops after its supervisor has answered, and it passes SIGCONT on") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t guardian = ::fork();
  if (guardian == 0) {
    ::alarm(20);
    ::setpgid(0, 0);  // a group without a parent in its session ignores SIGTSTP
    const GuardianOptions options{{SIGTSTP, SIGCONT}, {}, nullptr};
    ::_exit(exit_as(run_guarded(options, [&](auto) {
      sigset_t expected;
      ::sigemptyset(&expected);
      for (const int signal : {SIGTSTP, SIGCONT}) ::sigaddset(&expected, signal);
      int signal = 0;
      const auto report = [&](char what) { return ::write(ends[1], &what, 1); };
      report('b');
      ::sigwait(&expected, &signal);
      report(signal == SIGTSTP ? 's' : '?');
      answer_stop();
      ::sigwait(&expected, &signal);
      return ExitStatus::exited(signal == SIGCONT ? 7 : 8);
    })));
  }
  const auto next = [&] {
    char what = 0;
    return ::read(ends[0], &what, 1) == 1 ? what : '!';
  };
  CHECK(next() == 'b');
  ::kill(guardian, SIGTSTP);
  int status = 0;
  REQUIRE(::waitpid(guardian, &status, WUNTRACED) == guardian);
  CHECK(WIFSTOPPED(status));
  int available = 0;
  CHECK(::ioctl(ends[0], FIONREAD, &available) == 0);
  CHECK(available == 1);
  ::kill(guardian, SIGCONT);
  REQUIRE(::waitpid(guardian, &status, 0) == guardian);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
}
