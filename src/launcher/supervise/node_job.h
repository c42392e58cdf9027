// NodeJob: this node's part in a job on several nodes, attempt after attempt, as the hub says.
#pragma once

#include "launcher/supervise/job.h"

namespace ddp::launcher {

// As run_job. The outcome's exit code is the one that all nodes end with.
base::Result<JobOutcome> run_node_job(const JobParts& parts);

}  // namespace ddp::launcher
