// Describes the launcher's standard input.
#pragma once

#include <sys/types.h>

#include "base/process_stat.h"

namespace ddp::launcher {

enum class StandardInput {
  other,               // a file, a pipe, /dev/null
  terminal,            // the job may read it
  background_terminal  // another process group has the terminal, such as the user's shell
};

// `member` is a process of the job in the session of the user's shell. The answer changes when the user moves the job
// to the background or to the foreground.
StandardInput standard_input(pid_t member);

// Returns whether another process group than that of this process has the terminal with the number `terminal`
// (TIOCGDEV). Returns false if it is not the controlling terminal of the process.
bool is_background(const base::ProcessStat& process, unsigned terminal);

}  // namespace ddp::launcher
