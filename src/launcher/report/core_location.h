// Where a core dump has gone, or why there is none.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/exit_status.h"

namespace ddp::launcher {

// What /proc/sys/kernel/core_pattern can ask for.
struct CoreFacts {
  std::string pattern;    // of the kernel, with its line end or without
  bool uses_pid = false;  // /proc/sys/kernel/core_uses_pid
  pid_t pid = 0;
  std::string program;    // path
  std::string directory;  // the worker's working directory
  std::string host_name;
  int signal = 0;
  bool limit_is_zero = false;  // RLIMIT_CORE of the worker
};

// Pure. A few words for the summary: "/var/crash/core.train.4711", "with systemd-coredump (coredumpctl dump 4711)",
// "none: the limit is 0, see --core"; empty if the signal leaves no core. Numbers that only the kernel knows (%t, %d)
// become "*". See core(5).
std::string describe_core(const base::ExitStatus& status, const CoreFacts& facts);

// Reads the kernel's settings; `core_choice` is LaunchPlan::core.
CoreFacts gather_core_facts(pid_t pid, const std::string& program, const std::string& host_name,
                            const std::string& core_choice, const base::ExitStatus& status);

}  // namespace ddp::launcher
