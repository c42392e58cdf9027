#include "base/exit_status.h"

#include <csignal>

#include "support/catch.h"

using ddp::base::ExitStatus;

TEST_CASE("exit code 11 and death by signal 11 are kept apart") {
  const ExitStatus exited = ExitStatus::exited(11);
  const ExitStatus killed = ExitStatus::killed(SIGSEGV);
  CHECK_FALSE(exited == killed);
  CHECK(exited.shell_code() == 11);
  CHECK(killed.shell_code() == 139);
  CHECK(exited.describe() == "exit code 11");
  CHECK(killed.describe() == "killed by SIGSEGV");
  CHECK_FALSE(exited.was_killed_by(SIGSEGV));
  CHECK(killed.was_killed_by(SIGSEGV));
  CHECK(killed.signal() == SIGSEGV);
  CHECK(exited.signal() == 0);
}

TEST_CASE("only exit code 0 counts as success") {
  CHECK(ExitStatus::exited(0).success());
  CHECK_FALSE(ExitStatus::exited(1).success());
  CHECK_FALSE(ExitStatus::killed(SIGKILL).success());
}

TEST_CASE("the text of an exit status mentions a core dump") {
  CHECK(ExitStatus::killed(SIGABRT, true).describe() == "killed by SIGABRT (core dumped)");
}

TEST_CASE("exit codes and signals from waitpid are converted to an exit status") {
  CHECK(ExitStatus::from_wait(11 << 8) == ExitStatus::exited(11));
  CHECK(ExitStatus::from_wait(SIGSEGV) == ExitStatus::killed(SIGSEGV));
  CHECK(ExitStatus::from_wait(SIGSEGV | 0x80) == ExitStatus::killed(SIGSEGV, true));
}
