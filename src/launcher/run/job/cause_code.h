// Says what kind of cause ended an attempt, and what that means for another one. The functions are pure.
// docs/reference/exit-codes.md lists the codes for users.
#pragma once

#include <string>
#include <string_view>

#include "launcher/run/job/outcome.h"
#include "wire/control_message.h"

namespace ddp::launcher {

wire::CauseCode code_of(const JobOutcome& outcome);
wire::CauseCode code_of(const SignalArrived& request);

// Returns whether it makes sense to start a job again that ended for this cause: "yes", "no", "perhaps", or "elsewhere"
// (not on the node of the cause).
std::string_view repeat_after(wire::CauseCode code);

// Returns whether a restart for this cause counts in --max-restarts. The loss of a node does not.
bool counts_as_restart(wire::CauseCode code);

// Returns a name for the error of the culprit, such as "rank 1: KeyError at /a/train.py:83 in train". It is the same
// in another attempt that fails with the same error. Returns an empty string if nothing shows that the error is the
// program's own: files, connections, memory and devices may work the next time.
std::string repeatable_error(const JobOutcome& outcome);

}  // namespace ddp::launcher
