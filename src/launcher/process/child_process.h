// Starting one process. The only file pair that knows Boost.Process (docs/decisions/0002-process-spawning.md).
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <string>

#include "base/result.h"
#include "launcher/process/worker_spec.h"

namespace ddp::launcher {

struct SpawnFailure {
  int exit_code;        // 126 not executable, 127 not found, 125 the system refused
  std::string message;  // a sentence
};

// Starts the worker as the leader of a session and process group of its own, with no input, our output, default signal
// dispositions, an empty signal mask, the given limit of descriptors and none of ours but the first three; it is killed
// when the calling thread ends. Its argv[0] is the program's path. The caller reaps it. Call from one long-lived
// thread.
base::Result<pid_t, SpawnFailure> spawn_child(const WorkerSpec& spec, const rlimit& descriptors);

}  // namespace ddp::launcher
