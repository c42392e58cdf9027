// Starts one worker (docs/development/decisions/0006-own-spawn.md).
#pragma once

#include <sys/resource.h>

#include "base/result.h"
#include "base/unique_fd.h"
#include "launcher/run/process/clone_launcher.h"
#include "launcher/run/process/worker_spec.h"
#include "launcher/start/plan/start_failure.h"
#include "net/event_loop.h"

namespace ddp::launcher {

struct Spawned {
  OwnedProcess process;
  base::UniqueFd end;  // can be read when the process has ended; empty if the kernel has no pidfds
};

// Contains the descriptors that the new process gets in addition to its spec. The caller keeps the descriptors.
struct SpawnContext {
  int in = 0;
  int out = 1;
  int err = 2;
  int cgroup_procs = -1;  // cgroup.procs of the cgroup to join, open for writing; -1 means none
  int page = -1;          // becomes wire::kPageDescriptor if the worker may have so many; -1 means none
  int ring = -1;          // becomes wire::kRingDescriptor in the same way
  int states = -1;        // becomes wire::kStateDescriptor in the same way
  int cgroup = -1;        // folder of the cgroup to join, open; -1 means to join by cgroup_procs, which takes longer
};

struct WorkerLimits {
  rlimit descriptors{};
  rlimit core{};
};
WorkerLimits limits_of(const WorkerSpec& spec);

// Starts the worker as the leader of a new session and process group, with default signal dispositions and an empty
// signal mask. It has no descriptors of the launcher except the first three, the page, the ring and the state memory.
// It is killed when the calling thread ends. Its argv is spec.arguments. Returns when the program runs, or returns the
// reason why it does not. Then nothing of it is left. The caller reaps it and then calls detach(), without which the
// destructor would kill and reap it.
//
// Call from one long-lived thread. The descriptors of the context may have any numbers.
base::Result<Spawned, StartFailure> spawn_worker(net::EventLoop& loop, const WorkerSpec& spec,
                                                 const SpawnContext& context);

}  // namespace ddp::launcher
