// The registers of a thread that runs, which the kernel tells of no thread that is not held.
#pragma once

#include <sys/types.h>

#include <string>

#include "launcher/watchdog/stacks/stack_capture.h"

namespace ddp::stack_reader {

struct HeldThread {
  launcher::ThreadCapture capture;
  std::string obstacle;  // why there is none
};

// Holds the thread for a moment, by ptrace(2). A call that it had begun meanwhile goes on as if nothing had
// been: one that the kernel does not restart by itself is begun anew, with its whole time-out.
HeldThread hold_for_a_moment(pid_t pid, pid_t tid);

}  // namespace ddp::stack_reader
