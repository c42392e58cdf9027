// Starts a process without a copy of this one (docs/development/decisions/0006-own-spawn.md).
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace ddp::launcher {

// Names the stage at which a start failed: the process was not created, its parent was gone, its preparation failed, or
// execve() failed.
enum class StartStage { none, creation, parent, preparation, execution };

struct CloneRequest {
  bool searches_path = false;  // set for a program without a slash in its name; a script then needs no first line
  bool leads_session = false;
  int death_signal = 0;  // signal that the child gets when the thread that started it ends
  int cgroup = -1;       // descriptor of the folder of the child's cgroup; -1 means the cgroup of this process

  const char* program = nullptr;
  char* const* arguments = nullptr;
  char* const* environment = nullptr;
  // Called in the child, before it executes its program. Returns 0 or an error number. `is_in_cgroup` is false if the
  // kernel refused to create the child in its cgroup.
  std::function<int(bool is_in_cgroup)> prepare;
};

struct Cloned {
  pid_t pid = -1;
  base::UniqueFd pidfd;  // empty if the kernel has no pidfds
  StartStage failed_at = StartStage::none;
  int error = 0;
};

// Returns the words as execve() takes them, with a null pointer after the last one. `words` must outlive the result.
std::vector<const char*> null_terminated(const std::vector<std::string>& words);

// Starts a program. In the child all signals have their default actions, none is blocked, and execve() closes all
// descriptors above 2 except those that `prepare` makes. `prepare` shares the memory of this process, may make bare
// system calls only, and must not allocate. Returns when the program runs, or when it has failed to start and is
// reaped. Otherwise the caller reaps it.
//
// Call from one long-lived thread.
Cloned clone_process(const CloneRequest& request);

// Does the same as clone() with CLONE_VM, CLONE_VFORK, CLONE_PIDFD and SIGCHLD, in the cgroup (version 2) whose folder
// is open as `cgroup`. If a process joins a cgroup later, the kernel waits until no processor is in the middle of a
// fork or an exit. That takes about ten milliseconds, which this function avoids. The child runs function(argument),
// which must not return, on the stack of `stack_bytes` at `stack`. Returns -1 and sets errno if that is not possible:
// before Linux 5.7, if a container forbids clone3(), and on processors other than x86-64 (ENOSYS).
pid_t clone_into_cgroup(int (*function)(void*), void* argument, void* stack, std::size_t stack_bytes, int cgroup,
                        int* pidfd);

}  // namespace ddp::launcher
