// Starting one process (docs/decisions/0006-own-spawn.md).
#pragma once

#include <sys/types.h>

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "launcher/plan/start_failure.h"
#include "launcher/process/worker_spec.h"

namespace ddp::launcher {

struct Spawned {
  pid_t pid = 0;
  base::UniqueFd pidfd;  // empty where the kernel has none: then SIGCHLD and waitid() must do
};

// What the new process gets beside its spec. Descriptors stay the caller's; -1: ours is inherited.
struct SpawnContext {
  int in = -1;
  int out = -1;
  int err = -1;
  int cgroup_procs = -1;  // cgroup.procs of the cgroup to join, open for writing; -1: none
  int board = -1;         // becomes wire::kBoardDescriptor, if the worker may have so many; -1: none
  int cgroup = -1;        // the folder of that cgroup, open; -1: it joins by cgroup_procs, which takes longer
};

// Starts the worker as the leader of a session and process group of its own, with default signal dispositions, an empty
// signal mask, and no descriptors of ours but the first three and the board; it is killed when the calling thread ends.
// Returns when the program runs, or why it does not; then nothing of it is left. Its argv is spec.arguments. The caller
// reaps it.
//
// Call from one long-lived thread that has descriptors 0 to 2 open.
base::Result<Spawned, StartFailure> spawn_worker(const WorkerSpec& spec, const SpawnContext& context);

}  // namespace ddp::launcher
