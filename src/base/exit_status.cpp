#include "base/exit_status.h"

#include <sys/wait.h>

#include "base/signals.h"

namespace ddp::base {

ExitStatus ExitStatus::from_wait(int status) {
  return WIFSIGNALED(status) ? killed(WTERMSIG(status), WCOREDUMP(status)) : exited(WEXITSTATUS(status));
}

std::string ExitStatus::describe() const {
  if (!was_killed()) return "exit code " + std::to_string(number_);
  return "killed by " + signal_name(number_) + (core_dumped_ ? " (core dumped)" : "");
}

}  // namespace ddp::base
