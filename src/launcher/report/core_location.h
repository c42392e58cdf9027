// Where a core dump has gone, or why there is none.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/exit_status.h"
#include "launcher/cli/choices.h"

namespace ddp::launcher {

// What a core pattern (/proc/sys/kernel/core_pattern, core(5)) can ask for.
struct CoreFacts {
  std::string pattern;    // of the kernel; empty also if it cannot be read
  bool uses_pid = false;  // /proc/sys/kernel/core_uses_pid
  pid_t pid = 0;          // as we see it
  // We are in a PID or user namespace of our own (a container): the numbers that the kernel would write are not ours.
  bool has_own_numbers = false;
  std::string program;     // path as it was executed
  std::string executable;  // the same without symbolic links
  std::string directory;   // the worker's working directory, as far as we know
  std::string host_name;
  int signal = 0;
  uid_t user = 0;
  gid_t group = 0;
  CoreDumps choice = CoreDumps::inherit;
  bool limit_is_zero = false;  // RLIMIT_CORE of the worker
};

// Pure. A few words for the summary: "/var/crash/core.train.4711", "with systemd-coredump (coredumpctl info 4711)",
// "none, the limit is 0 (--core=unlimited)"; empty if the signal leaves no core, or if nothing is known. What only the
// kernel knows (the time, the thread) becomes "*".
std::string describe_core(const base::ExitStatus& status, const CoreFacts& facts);

// Reads the kernel's settings; `core_choice` is LaunchPlan::core.
CoreFacts gather_core_facts(pid_t pid, const std::string& program, const std::string& host_name, CoreDumps core_choice,
                            const base::ExitStatus& status);

}  // namespace ddp::launcher
