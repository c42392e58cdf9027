// WorkerEnds wakes the reader when a worker has ended. The calls of the others are worth a look then, because the
// launcher may end them soon.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <span>

#include "base/unique_fd.h"

namespace ddp::torch_reader {

class WorkerEnds {
 public:
  // Observes the process until it has ended. Where the kernel refuses that, its end is not noticed.
  void follow(pid_t pid);

  // Waits until then, until one or more processes have ended, or until one of these descriptors, which may be -1, is
  // readable. Returns whether a process has ended.
  bool wait_until(std::chrono::steady_clock::time_point time, std::span<const int> descriptors = {});

 private:
  std::map<pid_t, base::UniqueFd> processes_;  // null if the process has ended
};

}  // namespace ddp::torch_reader
