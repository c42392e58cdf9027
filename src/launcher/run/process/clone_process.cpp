// The new process shares the memory of this one until it executes its program (CLONE_VM), and this process waits until
// then (CLONE_VFORK). Nothing is copied, so a start takes a tenth of a millisecond whatever the size of this process.
// The child writes the reason of a failure to a place where the parent reads it. In return, the child makes only bare
// system calls on data that was prepared before, allocates nothing, and never returns. All signals are blocked
// meanwhile, so that no handler of this process runs in the child.
#include "launcher/run/process/clone_process.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigset_t and friends are POSIX
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <utility>

namespace ddp::launcher {
namespace {

constexpr std::size_t kStackBytes = std::size_t{64} << 10;

struct ChildWork {
  const CloneRequest& request;
  pid_t parent;
  int highest_descriptor;  // -1 if close_range() can be used
  bool is_in_cgroup = false;
  volatile bool has_begun = false;  // written by the child
  StartStage failed_at = StartStage::none;
  int error = 0;
};

[[noreturn]] void fail(ChildWork& work, StartStage stage, int error) {
  work.error = error;
  work.failed_at = stage;
  ::_exit(127);
}

// glibc has a function for this only since version 2.34, and the kernel's headers have the flag only since 5.11.
bool close_at_exec_from(unsigned first) {
  constexpr unsigned kCloseRangeCloexec = 1U << 2;
  return ::syscall(__NR_close_range, first, ~0U, kCloseRangeCloexec) == 0;
}

void close_at_exec(int highest_descriptor) {
  if (highest_descriptor < 0) {
    close_at_exec_from(3);
    return;
  }
  for (int fd = 3; fd <= highest_descriptor; ++fd) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
}

// Runs in the child, in the memory of the parent.
int become_program(void* argument) {
  ChildWork& work = *static_cast<ChildWork*>(argument);
  const CloneRequest& request = work.request;
  work.has_begun = true;
  ::prctl(PR_SET_PDEATHSIG, request.death_signal);
  // The parent may have died before that call. Its pid is compared with the former one, because a subreaper other than
  // process 1 may have adopted the child.
  if (::getppid() != work.parent) fail(work, StartStage::parent, ESRCH);
  if (request.leads_session) ::setsid();
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action {};
    action.sa_handler = SIG_DFL;
    ::sigaction(signal, &action, nullptr);
  }
  close_at_exec(work.highest_descriptor);
  if (const int error = request.prepare(work.is_in_cgroup); error != 0) fail(work, StartStage::preparation, error);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (request.searches_path) {
    ::execvpe(request.program, request.arguments, request.environment);
  } else {
    ::execve(request.program, request.arguments, request.environment);
  }
  fail(work, StartStage::execution, errno);
}

int highest_descriptor() {
  if (close_at_exec_from(~0U)) return -1;
  int highest = 2;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    highest = std::max(highest, std::atoi(entry.path().filename().c_str()));
  }
  return highest;
}

// Creates the process, with a pidfd if the kernel has them. Returns -1 and sets errno if that fails.
pid_t make_child(ChildWork& work, int& pidfd) {
  // The child leaves this stack before clone() returns here (CLONE_VFORK).
  const auto stack = std::make_unique_for_overwrite<char[]>(kStackBytes);  // NOLINT(modernize-avoid-c-arrays)
  if (work.request.cgroup >= 0) {
    work.is_in_cgroup = true;
    const pid_t pid = clone_into_cgroup(become_program, &work, stack.get(), kStackBytes, work.request.cgroup, &pidfd);
    if (pid >= 0 && work.has_begun) return pid;
    work.is_in_cgroup = false;
    // A kernel (seen with Linux 6.18) kills each process that is created in a cgroup whose cgroup.kill was written
    // before. The reason is that it compares the count of such kills with the count of the parent's cgroup. A process
    // that joins later survives.
    if (pid >= 0) ::waitpid(pid, nullptr, 0);
    base::UniqueFd(std::exchange(pidfd, -1)).reset();
  }
  constexpr int kFlags = CLONE_VM | CLONE_VFORK | SIGCHLD;
  char* const top = stack.get() + kStackBytes;
  pid_t pid = ::clone(become_program, top, kFlags | CLONE_PIDFD, &work, &pidfd);
  if (pid < 0 && (errno == EINVAL || errno == ENOSYS || errno == EPERM)) {
    pid = ::clone(become_program, top, kFlags, &work);
  }
  if (pid >= 0 && pidfd < 0) pidfd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  return pid;
}

}  // namespace

std::vector<const char*> null_terminated(const std::vector<std::string>& words) {
  std::vector<const char*> result;
  for (const std::string& word : words) result.push_back(word.c_str());
  result.push_back(nullptr);
  return result;
}

Cloned clone_process(const CloneRequest& request) {
  ChildWork work{request, ::getpid(), highest_descriptor()};
  int pidfd = -1;
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = make_child(work, pidfd);
  const int error = pid < 0 ? errno : work.error;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid >= 0 && error != 0) ::waitpid(pid, nullptr, 0);
  return {pid, base::UniqueFd(pidfd), pid < 0 ? StartStage::creation : work.failed_at, error};
}

// glibc 2.36 has no function for clone3(). syscall() cannot be used, because the child would return from it on another
// stack.
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
