// Creates a process in a cgroup.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace ddp::launcher {

// Does the same as clone() with CLONE_VM, CLONE_VFORK, CLONE_PIDFD and SIGCHLD, in the cgroup (version 2) whose folder
// is open as `cgroup`. If a process joins a cgroup later, the kernel waits until no processor is in the middle of a
// fork or an exit. That takes about ten milliseconds, which this function avoids. The child runs function(argument),
// which must not return, on the stack of `stack_bytes` at `stack`. Returns -1 and sets errno if that is not possible:
// before Linux 5.7, if a container forbids clone3(), and on processors other than x86-64 (ENOSYS).
pid_t clone_into_cgroup(int (*function)(void*), void* argument, void* stack, std::size_t stack_bytes, int cgroup,
                        int* pidfd);

}  // namespace ddp::launcher
