// This header queries the server that PyTorch runs in a worker (torch._C._distributed_c10d._WorkerServer), on a Unix
// socket.
#pragma once

#include <chrono>
#include <string>

#include "base/result.h"

namespace ddp::torch_reader {

// Returns the handler's answer to a POST. The failure says why there is no answer; it is "too late" after `time`. The
// call blocks.
base::Result<std::string> ask(const std::string& socket_path, const std::string& handler,
                              std::chrono::milliseconds time);

}  // namespace ddp::torch_reader
