// A new process that is born in a cgroup.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace ddp::launcher {

// clone() with CLONE_VM, CLONE_VFORK, CLONE_PIDFD and SIGCHLD, into the cgroup (version 2) whose folder is open as
// `cgroup`. Joining one afterwards makes the kernel wait until no processor is in the middle of a fork or an exit, some
// ten milliseconds; this does not. The child runs function(argument), which must not return, on the stack of
// `stack_bytes` at `stack`. -1 and errno where that cannot be done: before Linux 5.7, where a container forbids
// clone3(), and on processors other than x86-64 (ENOSYS).
pid_t clone_into_cgroup(int (*function)(void*), void* argument, void* stack, std::size_t stack_bytes, int cgroup,
                        int* pidfd);

}  // namespace ddp::launcher
