// Guardian: the process that the user started stays as a small watchman over the one that does the work, so that either
// of them may be killed and nothing of the job survives (docs/development/decisions/0008-guardian.md).
#pragma once

#include <functional>
#include <vector>

#include "base/exit_status.h"
#include "base/unique_fd.h"
#include "launcher/process/worker_cgroup.h"

namespace ddp::launcher {

struct GuardianOptions {
  std::vector<int> signals;              // passed on to the supervisor
  std::vector<int> ending_signals;       // those of them that are requests to end: the third one is obeyed at once
  const WorkerCgroup* cgroup = nullptr;  // emptied at the end; may be null
};

// Runs `supervise` in a child, in a session of its own, and returns how that child ended. Meanwhile passes signals on,
// stops and continues together with it (Ctrl-Z), and reaps. Afterwards kills and reaps whatever the child has left: the
// guardian is its ancestor and adopts it.
//
// `supervise` gets a descriptor at whose end of file the guardian is dead; it must then end the job by itself. Its
// result is the child's end: an exit code, or the signal that it shall die by.
//
// Call with no other thread running. The signals and SIGCHLD are blocked from then on, in `supervise` as well. Throws
// std::system_error if there can be no child.
base::ExitStatus run_guarded(const GuardianOptions& options,
                             const std::function<base::ExitStatus(base::UniqueFd lifeline)>& supervise);

}  // namespace ddp::launcher
