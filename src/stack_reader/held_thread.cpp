#include "stack_reader/held_thread.h"

#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <thread>

#include "base/file.h"

namespace ddp::stack_reader {
namespace {

#ifdef __x86_64__

constexpr std::chrono::milliseconds kPatience{300};
constexpr std::chrono::microseconds kPoll{200};
constexpr std::uint64_t kCallBytes = 2;  // length of the instruction "syscall"

// Returns whether a deliverable signal is pending for this thread. Such a signal is then the reason why its call ended.
bool has_signal(pid_t pid, pid_t tid) {
  const std::string status =
      base::read_file("/proc/" + std::to_string(pid) + "/task/" + std::to_string(tid) + "/status");
  const auto mask = [&](std::string_view name) {
    const std::size_t at = status.find(name);
    return at == std::string::npos ? 0 : std::strtoull(status.c_str() + at + name.size(), nullptr, 16);
  };
  return ((mask("\nSigPnd:\t") | mask("\nShdPnd:\t")) & ~mask("\nSigBlk:\t")) != 0;
}

// Calls that the kernel does not restart end with EINTR because of the stop. This function starts them again.
void let_call_go_on(pid_t pid, pid_t tid, user_regs_struct registers) {
  const auto in_call = static_cast<std::int64_t>(registers.orig_rax) >= 0;
  if (!in_call || static_cast<std::int64_t>(registers.rax) != -EINTR || has_signal(pid, tid)) return;
  registers.rax = registers.orig_rax;
  registers.rip -= kCallBytes;
  iovec from{&registers, sizeof registers};
  ::ptrace(PTRACE_SETREGSET, tid, NT_PRSTATUS, &from);
}

bool wait_until_held(pid_t tid) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < deadline) {
    int status = 0;
    const pid_t found = ::waitpid(tid, &status, __WALL | WNOHANG);
    if (found < 0) return false;
    if (found == tid) return WIFSTOPPED(status);
    std::this_thread::sleep_for(kPoll);
  }
  return false;
}

#endif

}  // namespace

HeldThread hold_for_a_moment(pid_t pid, pid_t tid) {
  HeldThread held;
  held.capture.tid = tid;
#ifdef __x86_64__
  if (::ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) != 0) {
    held.obstacle = std::string("ddplaunch is not permitted to stop it: ") + std::strerror(errno);
    return held;
  }
  user_regs_struct registers{};
  iovec into{&registers, sizeof registers};
  // When this program ends, the kernel detaches all threads that are still attached.
  if (::ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr) != 0 || !wait_until_held(tid)) {
    held.obstacle = "it could not be stopped";
    return held;
  }
  if (::ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &into) == 0) {
    const std::array<std::uint64_t, 17> numbered = {
        registers.rax, registers.rdx, registers.rcx, registers.rbx, registers.rsi, registers.rdi,
        registers.rbp, registers.rsp, registers.r8,  registers.r9,  registers.r10, registers.r11,
        registers.r12, registers.r13, registers.r14, registers.r15, registers.rip};
    for (int i = 0; i < static_cast<int>(numbered.size()); ++i) {
      held.capture.registers[i] = numbered[static_cast<std::size_t>(i)];
    }
    held.capture.stack = launcher::copy_stack(pid, registers.rsp, launcher::kMostStack);
    let_call_go_on(pid, tid, registers);
  } else {
    held.obstacle = "its registers cannot be read";
  }
  ::ptrace(PTRACE_DETACH, tid, nullptr, nullptr);
#else
  static_cast<void>(pid);
  held.obstacle = "not supported on this processor architecture";
#endif
  return held;
}

}  // namespace ddp::stack_reader
