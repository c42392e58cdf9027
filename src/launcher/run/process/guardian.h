// The process that the user started stays as the guardian of the supervisor, which does the work. If either of them is
// killed, nothing of the job survives (docs/development/decisions/0008-guardian.md).
#pragma once

#include <functional>
#include <vector>

#include "base/exit_status.h"
#include "base/unique_fd.h"
#include "launcher/run/process/worker_cgroup.h"

namespace ddp::launcher {

struct GuardianOptions {
  std::vector<int> signals;              // signals that are passed on to the supervisor
  std::vector<int> ending_signals;       // signals that request the end; the third request kills the supervisor
  const WorkerCgroup* cgroup = nullptr;  // its processes are killed at the end; may be null
};

// Runs `supervise` in a child, which leads a new session, and returns how that child ended. Meanwhile it passes signals
// on, stops and continues together with the child (Ctrl-Z), and reaps processes. Afterwards it kills and reaps the
// processes that the child has left: as their ancestor, the guardian adopts them.
//
// `supervise` gets a descriptor that reaches its end of file when the guardian is dead. `supervise` must then end the
// job by itself. Its result is how the child ends: an exit code, or the signal by which it dies.
//
// Call this while no other thread runs. The signals and SIGCHLD are blocked from then on, in `supervise` as well.
// Throws std::system_error if no child can be created.
base::ExitStatus run_guarded(const GuardianOptions& options,
                             const std::function<base::ExitStatus(base::UniqueFd lifeline)>& supervise);

// Called by the supervisor after SIGTSTP, when it has stopped the workers and removed its lines from the terminal. The
// guardian, whose stop gives the terminal back to the shell, waits for this call for limits::kStopAnswer at most.
void answer_stop();

// Called by the supervisor after SIGCONT if the job waits for input of a terminal that another process group has. The
// guardian stops the job again, as the kernel stops a process that reads the terminal in the background (SIGTTIN).
void stop_again();

}  // namespace ddp::launcher
