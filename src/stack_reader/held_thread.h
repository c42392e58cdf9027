// This header reads the registers of a running thread, which the kernel provides only for a stopped thread.
#pragma once

#include <sys/types.h>

#include <string>

#include "launcher/run/stacks/stack_capture.h"

namespace ddp::stack_reader {

struct HeldThread {
  launcher::ThreadCapture capture;
  std::string obstacle;  // why there is no capture
};

// Stops the thread briefly by ptrace(2). A system call in progress then continues. A call that the kernel does not
// restart itself is started again, with its full time-out.
HeldThread hold_for_a_moment(pid_t pid, pid_t tid);

}  // namespace ddp::stack_reader
