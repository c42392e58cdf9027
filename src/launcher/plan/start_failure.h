// StartFailure: why a job, or a worker, is not started.
#pragma once

#include <string>

namespace ddp::launcher {

struct StartFailure {
  int exit_code;        // 2 usage, 126 not executable, 127 not found, 125 the system refused
  std::string message;  // a sentence or more
};

}  // namespace ddp::launcher
