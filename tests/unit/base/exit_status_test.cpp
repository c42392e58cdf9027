#include "base/exit_status.h"

#include <csignal>

#include "support/catch.h"

using ddp::base::ExitStatus;

TEST_CASE("exit code 11 and death by signal 11 stay different") {
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

TEST_CASE("only exit code 0 is success") {
  CHECK(ExitStatus::exited(0).success());
  CHECK_FALSE(ExitStatus::exited(1).success());
  CHECK_FALSE(ExitStatus::killed(SIGKILL).success());
}

TEST_CASE("a core dump is mentioned") {
  CHECK(ExitStatus::killed(SIGABRT, true).describe() == "killed by SIGABRT (core dumped)");
}

TEST_CASE("what waitpid tells is kept apart") {
  CHECK(ExitStatus::from_wait(11 << 8) == ExitStatus::exited(11));
  CHECK(ExitStatus::from_wait(SIGSEGV) == ExitStatus::killed(SIGSEGV));
  CHECK(ExitStatus::from_wait(SIGSEGV | 0x80) == ExitStatus::killed(SIGSEGV, true));
}
