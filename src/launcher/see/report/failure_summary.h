// Builds the few lines that a user reads when a job has failed. The functions are pure, except read_shared_memory().
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/exit_status.h"
#include "launcher/run/job/outcome.h"
#include "launcher/see/report/gpu_memory_report.h"
#include "launcher/start/plan/launch_plan.h"
#include "launcher/start/plan/placement.h"

namespace ddp::launcher {

struct SharedMemory {
  std::uint64_t total = 0;  // bytes
  std::uint64_t free = 0;   // now; what the failed worker held may be free again
};

// Returns the size of the file system at `path`, or std::nullopt if it cannot be read.
std::optional<SharedMemory> read_shared_memory(const std::string& path = "/dev/shm");

// Returns whether a worker failed in a way that is typical of a full /dev/shm: SIGBUS, or an error that names it.
bool may_lack_shared_memory(const base::ExitStatus& status, const std::vector<std::string>& last_lines);

// Returns a line for the report that contains the size and says what to do.
std::string shared_memory_line(const SharedMemory& memory, const std::string& node);

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
