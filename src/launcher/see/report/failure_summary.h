// Builds the few lines that a user reads when a job has failed. The functions are pure.
#pragma once

#include <sys/types.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/run/job/outcome.h"
#include "launcher/see/report/gpu_memory_report.h"
#include "launcher/see/report/shared_memory.h"
#include "launcher/start/plan/launch_plan.h"
#include "launcher/start/plan/placement.h"

namespace ddp::launcher {

// Returns a line such as "0.1.0  2 workers on node a (GPU 0, 1), store 127.0.0.1:41873". It is printed once, before the
// workers start.
std::string start_line(const LaunchPlan& plan, const Placement& placement);
// Returns a line such as "GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME are eth0, …", or std::nullopt if the user has set
// them.
std::optional<std::string> interface_line(const LaunchPlan& plan, const std::string& interface);

// Holds what the summary shows in addition to the outcome.
struct FailureEvidence {
  std::string core;                            // result of describe_core()
  std::vector<std::string> last_lines;         // last lines of the culprit's output
  std::string log_file;                        // file that holds all of them; empty if there is none
  std::set<pid_t> of_other_users;              // processes that the launcher may not signal
  std::string node;                            // name of this node in the job; empty if it is the host name
  std::optional<GpuMemoryFailure> gpu_memory;  // set if the culprit got no GPU memory
  std::optional<SharedMemory> shared_memory;   // set if the culprit may have lacked it
};

// The first line says what happened to which rank. The next lines say where it happened, quote the worker, and say what
// the launcher did about it. The result is empty after success, unless a process could not be killed.
std::vector<std::string> failure_summary(const JobOutcome& outcome, const LaunchPlan& plan,
                                         const FailureEvidence& evidence);

// Returns what two attempts have in common if they failed in the same way: the culprit, its status, its error and its
// last lines. Numbers are left out. Returns an empty string unless a worker failed.
std::string failure_signature(const JobOutcome& outcome, const FailureEvidence& evidence);

}  // namespace ddp::launcher
