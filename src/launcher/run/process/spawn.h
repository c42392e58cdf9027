// Starts one worker (docs/development/decisions/0006-own-spawn.md).
#pragma once

#include <sys/resource.h>

#include <span>

#include "base/result.h"
#include "base/unique_fd.h"
#include "launcher/run/process/clone_launcher.h"
#include "launcher/run/process/worker_spec.h"
#include "launcher/start/plan/start_failure.h"
#include "net/event_loop.h"

namespace ddp::launcher {

struct DescriptorMove {
  int from = -1;  // -1 means that there is nothing to move
  int to = -1;    // not less than 0, and different in all moves
};

// Makes each `to` a copy of what its `from` is at the time of the call, as if all moves happened at once: a number may
// be the source of one move and the target of another. The copies stay open at execve(). The sources stay as they are
// unless they are targets, and `from` may change. Returns 0 or an error number. Makes only bare system calls.
int move_descriptors(std::span<DescriptorMove> moves);

struct Spawned {
  OwnedProcess process;
  base::UniqueFd end;  // can be read when the process has ended; empty if the kernel has no pidfds
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
// Call from one long-lived thread. The descriptors may have any numbers.
base::Result<Spawned, StartFailure> spawn_worker(net::EventLoop& loop, const WorkerSpec& spec,
                                                 const WorkerDescriptors& descriptors);

}  // namespace ddp::launcher
