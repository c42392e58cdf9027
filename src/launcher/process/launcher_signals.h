// The signals that the launcher takes care of, and how a process ends like another.
#pragma once

#include <vector>

#include "base/exit_status.h"

namespace ddp::launcher {

// Every signal that would end or stop a process and can be passed on: requests to end, SIGUSR1 and the like, real-time
// signals, SIGTSTP and SIGCONT. Without those that this process was started with as ignored (nohup, a background job of
// a script): they stay ignored. SIGQUIT is taken nevertheless if it does not end the job, since it only asks what the
// ranks are at. Faults of the process itself (SIGSEGV, SIGABRT, …) keep their meaning.
std::vector<int> signals_to_care_for(const std::vector<int>& ending);

// Ends this process as that one ended: by the same signal, if it was one, so that a parent sees "killed by". Leaves no
// core. Returns, with the exit code to use, after an exit, or where the signal cannot end us (PID 1).
int exit_as(const base::ExitStatus& status);

}  // namespace ddp::launcher
