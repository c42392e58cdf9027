// glibc 2.36 has no function for clone3(). syscall() cannot be used, because the child would return from it on another
// stack.
#include "launcher/run/process/clone_into_cgroup.h"

#include <linux/sched.h>
#include <sys/syscall.h>

#include <cerrno>
#include <csignal>
#include <cstdint>

namespace ddp::launcher {

#if defined(__x86_64__)

pid_t clone_into_cgroup(int (*function)(void*), void* argument, void* stack, std::size_t stack_bytes, int cgroup,
                        int* pidfd) {
  clone_args args{};
  args.flags = CLONE_VM | CLONE_VFORK | CLONE_PIDFD | CLONE_INTO_CGROUP;
  args.pidfd = reinterpret_cast<std::uintptr_t>(pidfd);
  args.exit_signal = SIGCHLD;
  args.stack = reinterpret_cast<std::uintptr_t>(stack);
  args.stack_size = stack_bytes;
  args.cgroup = static_cast<std::uint64_t>(cgroup);
  // The child has the parent's registers, and nothing on its stack.
  long result = SYS_clone3;
  asm volatile(
      "syscall\n\t"
      "test %%rax, %%rax\n\t"
      "jnz 1f\n\t"
      "mov %[argument], %%rdi\n\t"
      "call *%[function]\n\t"
      "ud2\n"
      "1:"
      : "+a"(result)
      : "D"(&args), "S"(sizeof args), [function] "r"(function), [argument] "r"(argument)
      : "rcx", "r11", "memory", "cc");
  if (result >= 0) return static_cast<pid_t>(result);
  errno = static_cast<int>(-result);
  return -1;
}

#else

pid_t clone_into_cgroup(int (*)(void*), void*, void*, std::size_t, int, int*) {
  errno = ENOSYS;
  return -1;
}

#endif

}  // namespace ddp::launcher
