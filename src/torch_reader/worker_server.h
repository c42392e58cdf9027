// This header queries the server that PyTorch runs in a worker (torch._C._distributed_c10d._WorkerServer), on a Unix
// socket.
#pragma once

#include <chrono>
#include <string>

#include "base/result.h"

namespace ddp::torch_reader {

struct Answer {
  int status = 0;  // of HTTP; 404 if this PyTorch has no such handler
  std::string body;

  bool is_ok() const { return status == 200; }
};

// Returns the answer to a POST. `handler` is the name of a handler, which may be followed by parameters
// ("name?key=value"). The failure says why there is no answer within `time`. The call blocks.
base::Result<Answer> ask(const std::string& socket_path, const std::string& handler, std::chrono::milliseconds time);

}  // namespace ddp::torch_reader
