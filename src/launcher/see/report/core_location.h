// Determines where a core dump was written, or why there is none.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/exit_status.h"
#include "launcher/start/cli/choices.h"

namespace ddp::launcher {

// Holds the values that a core pattern (/proc/sys/kernel/core_pattern, core(5)) can refer to.
struct CoreFacts {
  std::string pattern;    // the kernel's pattern; empty also if it cannot be read
  bool uses_pid = false;  // value of /proc/sys/kernel/core_uses_pid
  pid_t pid = 0;          // number of the process as the launcher sees it
  // The launcher runs in its own PID or user namespace (a container). The numbers that the kernel would write differ
  // from those that the launcher sees.
  bool has_own_numbers = false;
  std::string program;     // path as it was executed
  std::string executable;  // the same path without symbolic links
  std::string directory;   // the worker's working directory, as far as known
  std::string host_name;
  int signal = 0;
  uid_t user = 0;
  gid_t group = 0;
  CoreDumps choice = CoreDumps::inherit;
  bool limit_is_zero = false;  // whether the worker's RLIMIT_CORE is 0
};

// Returns a few words for the summary: "/var/crash/core.train.4711", "with systemd-coredump (coredumpctl info 4711)",
// "none, because the limit is 0 (--core=unlimited)". Returns an empty string if the signal leaves no core, or if
// nothing is known. Values that only the kernel knows (the time, the thread) become "*". This function is pure.
std::string describe_core(const base::ExitStatus& status, const CoreFacts& facts);

// Reads the kernel's settings; `core_choice` is LaunchPlan::core.
CoreFacts gather_core_facts(pid_t pid, const std::string& program, const std::string& host_name, CoreDumps core_choice,
                            const base::ExitStatus& status);

}  // namespace ddp::launcher
