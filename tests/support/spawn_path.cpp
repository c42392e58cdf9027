// spawn_path [clone3] [clone-pidfd] [pidfd-open] [close-range] -- program …: executes a program as on a kernel that
// lacks some features. Each word names a feature that fails, as on a kernel that does not know it.
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/close_range.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace {

// Adds instructions that let the call `number` fail with `error` if one of `bits` is set in its first argument. Without
// bits, the call always fails.
void refuse(std::vector<sock_filter>& filter, int number, unsigned bits, unsigned error) {
  constexpr unsigned kNumberAt = offsetof(seccomp_data, nr);
  constexpr unsigned kArgumentAt =
      offsetof(seccomp_data, args);  // low half of the argument, as both architectures are little-endian
  filter.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kNumberAt));
  filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(number), 0,
                            static_cast<std::uint8_t>(bits == 0 ? 1 : 3)));
  if (bits != 0) {
    filter.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kArgumentAt));
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1));
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error));
}

bool fails_with(long result, int error) {
  return result < 0 && errno == error;
}

int child(void*) {
  return 0;
}

bool clone_fails() {
  alignas(16) static char stack[16384];
  int pidfd = -1;
  return fails_with(::clone(child, stack + sizeof stack, CLONE_PIDFD | SIGCHLD, nullptr, &pidfd), EINVAL);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<sock_filter> filter;
  bool (*checks[4])() = {};
  int i = 1;
  for (; i < argc && std::string(argv[i]) != "--"; ++i) {
    const std::string what = argv[i];
    if (what == "clone3") {
      refuse(filter, SYS_clone3, 0, ENOSYS);
      checks[3] = [] { return fails_with(::syscall(SYS_clone3, nullptr, 0), ENOSYS); };
    } else if (what == "clone-pidfd") {
      refuse(filter, SYS_clone, CLONE_PIDFD, EINVAL);
      checks[0] = clone_fails;
    } else if (what == "pidfd-open") {
      refuse(filter, SYS_pidfd_open, 0, ENOSYS);
      checks[1] = [] { return fails_with(::syscall(SYS_pidfd_open, ::getpid(), 0), ENOSYS); };
    } else if (what == "close-range") {
      refuse(filter, SYS_close_range, 0, ENOSYS);
      checks[2] = [] { return fails_with(::syscall(SYS_close_range, ~0U, ~0U, CLOSE_RANGE_CLOEXEC), ENOSYS); };
    } else {
      std::fprintf(stderr, "spawn_path: what is %s?\n", what.c_str());
      return 2;
    }
  }
  if (i + 1 >= argc) return 2;
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    std::perror("spawn_path: seccomp");
    return 77;
  }
  for (const auto& check : checks) {
    if (check == nullptr || check()) continue;
    std::fprintf(stderr, "spawn_path: a call that should fail does not\n");
    return 1;
  }
  ::execvp(argv[i + 1], argv + i + 1);
  std::perror("spawn_path: exec");
  return 1;
}
