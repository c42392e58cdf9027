// The few lines that a user reads when a job has failed. Pure.
#pragma once

#include <sys/types.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/job/outcome.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/plan/placement.h"

namespace ddp::launcher {

// "2 workers on node a (GPU 0, 1), store 127.0.0.1:41873": said once before the workers start.
std::string start_line(const LaunchPlan& plan, const Placement& placement);
// "GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME are eth0, …"; nothing where the user has set them.
std::optional<std::string> interface_line(const LaunchPlan& plan, const std::string& interface);

// What the summary shows beside the outcome, gathered where it is known.
struct FailureEvidence {
  std::string core;                     // describe_core()
  std::vector<std::string> last_lines;  // of the culprit's output
  std::string log_file;                 // that holds all of them; empty: none
  std::set<pid_t> of_other_users;       // processes that the launcher may not signal
  std::string node;                     // as the job names this node; empty: its host name
};

// First line: what happened to whom; then where, its own words, and what was done about it. Empty after success, unless
// something could not be killed.
std::vector<std::string> failure_summary(const JobOutcome& outcome, const LaunchPlan& plan,
                                         const FailureEvidence& evidence);

}  // namespace ddp::launcher
