// Which variables of this machine's environment the launchers on other hosts get. Pure.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace ddp::launcher {

// Those that programs of this kind are set up with (PATH, PYTHONPATH, NCCL_* and so on; docs/reference/nodes.md lists
// them), and what `requests` name: NAME, NAME* or NAME=value. A job's own variables (ranks, the rendezvous) stay here,
// as does CUDA_VISIBLE_DEVICES, which each node has its own of, unless it is asked for. The token is never among
// them. Each name once. The failure names the request that is not set.
base::Result<std::vector<std::string>> forwarded_environment(std::span<const std::string> environment,
                                                             std::span<const std::string> requests);

}  // namespace ddp::launcher
