// Lists the signals that the launcher handles, and ends a process in the same way as another one.
#pragma once

#include <vector>

#include "base/exit_status.h"

namespace ddp::launcher {

// Says which processes of a worker get a signal. A worker leads a process group.
enum class SignalTarget { leader, group };

// Returns every signal that would end or stop a process and can be passed on. These are requests to end, SIGUSR1 and
// similar ones, real-time signals, SIGTSTP and SIGCONT. Signals that were ignored when this process was started (nohup,
// a background job of a script) are left out, and stay ignored. SIGQUIT is included even then if it does not end the
// job, because it only requests a report on the ranks. Faults of the process itself (SIGSEGV, SIGABRT, …) keep their
// default action.
std::vector<int> signals_to_care_for(const std::vector<int>& ending);

// Ends this process as that one ended. If a signal killed that process, the same signal kills this one, so that a
// parent sees "killed by". No core is written. Returns the exit code to use if that process exited, or if the signal
// cannot end this process (PID 1).
int exit_as(const base::ExitStatus& status);

}  // namespace ddp::launcher
