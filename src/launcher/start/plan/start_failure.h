// StartFailure says why a job or a worker is not started.
#pragma once

#include <string>

namespace ddp::launcher {

struct StartFailure {
  int exit_code;        // 2 for usage, 126 for not executable, 127 for not found, 125 for a system error
  std::string message;  // one or more sentences
};

}  // namespace ddp::launcher
