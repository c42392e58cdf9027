// How many nodes the job has, and which this is. A pure function.
#pragma once

#include "base/result.h"
#include "launcher/plan/launch_plan.h"

namespace ddp::launcher {

// From --nnodes, --node-rank, --rdzv-*, --master-*, --node-timeout. `is_static`: as torchrun's static backend.
base::Result<NodesPlan, StartFailure> plan_nodes(const Options& options, bool is_static);

}  // namespace ddp::launcher
