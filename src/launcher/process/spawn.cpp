// The new process shares our memory until it executes its program (CLONE_VM), and we stand still until then
// (CLONE_VFORK): nothing is copied, so a start costs a tenth of a millisecond whatever our size, and the reason of a
// failure is simply written where we read it. The price: the child makes bare system calls on things that were built
// before, allocates nothing, and never returns. All signals are blocked across it, lest a handler of ours runs there.
#include "launcher/process/spawn.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigset_t and friends are POSIX
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <utility>

#include "base/exit_code.h"
#include "base/text.h"
#include "launcher/facts/cgroups.h"
#include "launcher/limits.h"
#include "launcher/process/clone_into_cgroup.h"
#include "wire/progress_board.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kStackBytes = std::size_t{64} << 10;

enum class Stage { none, orphaned, cgroup, streams, binding, exec };

// All that the child needs, and the place where it says what went wrong.
struct ChildWork {
  const char* program = nullptr;
  char* const* arguments = nullptr;
  char* const* environment = nullptr;
  SpawnContext streams;
  pid_t launcher = 0;
  rlimit descriptors{};
  bool limits_core = false;
  rlimit core{};
  cpu_set_t cpus{};
  bool binds_cpus = false;
  std::array<unsigned long, 16> memory_nodes{};
  bool binds_memory = false;
  std::array<char, 8> oom_score{};
  std::size_t oom_score_size = 0;
  int highest_descriptor = -1;  // where close_range() does not exist

  Stage failed_at = Stage::none;
  int error = 0;
};

[[noreturn]] void fail(ChildWork& work, Stage stage) {
  work.error = errno;
  work.failed_at = stage;
  ::_exit(127);
}

void close_at_exec(const ChildWork& work) {
  if (work.highest_descriptor < 0) {
    ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
    return;
  }
  for (int fd = 3; fd <= work.highest_descriptor; ++fd) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
}

void connect_streams(ChildWork& work) {
  const std::array<int, 3> sources = {work.streams.in, work.streams.out, work.streams.err};
  for (int fd = 0; fd < 3; ++fd) {
    const int source = sources[static_cast<std::size_t>(fd)];
    if (source >= 0 && ::dup2(source, fd) < 0) fail(work, Stage::streams);
  }
}

void hand_over_board(const ChildWork& work) {
  if (work.streams.board < 0) return;
  if (work.streams.board != wire::kBoardDescriptor) {
    ::dup2(work.streams.board, wire::kBoardDescriptor);
  } else {
    ::fcntl(wire::kBoardDescriptor, F_SETFD, 0);
  }
}

// The kernel's out-of-memory killer should take a worker before it takes the one that watches over all of them.
void raise_oom_score(const ChildWork& work) {
  const int file = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (file >= 0) static_cast<void>(!::write(file, work.oom_score.data(), work.oom_score_size));
}

// Runs in the child, in our memory.
int become_worker(void* argument) {
  ChildWork& work = *static_cast<ChildWork*>(argument);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The launcher may have died before that call; its pid is compared with what it was, since a subreaper, not 1, may
  // have adopted us.
  if (::getppid() != work.launcher) fail(work, Stage::orphaned);
  ::setsid();
  // Where only ancestors may look into a process: the tools that we start for its stacks, too.
  ::prctl(PR_SET_PTRACER, work.launcher);
  if (work.streams.cgroup_procs >= 0 && ::write(work.streams.cgroup_procs, "0", 1) != 1) fail(work, Stage::cgroup);
  ::setrlimit(RLIMIT_NOFILE, &work.descriptors);
  if (work.limits_core) ::setrlimit(RLIMIT_CORE, &work.core);
  raise_oom_score(work);
  if (work.binds_cpus && ::sched_setaffinity(0, sizeof work.cpus, &work.cpus) != 0) fail(work, Stage::binding);
  // Not every container allows this one; then memory comes from where the CPUs are, which is nearly the same.
  if (work.binds_memory) {
    ::syscall(SYS_set_mempolicy, MPOL_PREFERRED, work.memory_nodes.data(), work.memory_nodes.size() * 64);
  }
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action {};
    action.sa_handler = SIG_DFL;
    ::sigaction(signal, &action, nullptr);
  }
  connect_streams(work);
  close_at_exec(work);
  hand_over_board(work);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execve(work.program, work.arguments, work.environment);
  fail(work, Stage::exec);
}

class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_{};
};

class Stack {
 public:
  Stack()
      : memory_(::mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0)) {}
  ~Stack() {
    if (valid()) ::munmap(memory_, kStackBytes);
  }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;
  bool valid() const { return memory_ != MAP_FAILED; }
  void* bottom() const { return memory_; }
  void* top() const { return static_cast<char*>(memory_) + kStackBytes; }

 private:
  void* memory_;
};

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> result;
  for (const std::string& word : words) result.push_back(const_cast<char*>(word.c_str()));  // NOLINT: execve's type
  result.push_back(nullptr);
  return result;
}

// 1024 descriptors are too few for NCCL on many ranks; a million makes programs slow that close all of them.
rlimit worker_descriptors() {
  rlimit now{};
  ::getrlimit(RLIMIT_NOFILE, &now);
  return {std::min<rlim_t>(now.rlim_max, limits::kWorkerDescriptors), now.rlim_max};
}

int highest_descriptor() {
  if (::close_range(~0U, ~0U, CLOSE_RANGE_CLOEXEC) == 0) return -1;
  int highest = 2;
  DIR* directory = ::opendir("/proc/self/fd");
  if (directory == nullptr) return 1023;
  while (const dirent* entry = ::readdir(directory)) {  // NOLINT(concurrency-mt-unsafe): a DIR of our own
    if (const auto fd = base::parse_integer(entry->d_name, 0, 1 << 30)) highest = std::max(highest, int(*fd));
  }
  ::closedir(directory);
  return highest;
}

void limit_core(CoreDumps choice, ChildWork& work) {
  if (choice == CoreDumps::inherit) return;
  work.limits_core = true;
  ::getrlimit(RLIMIT_CORE, &work.core);
  work.core.rlim_cur = choice == CoreDumps::off ? 0 : work.core.rlim_max;
}

void choose_oom_score(ChildWork& work) {
  int own = 0;
  std::ifstream("/proc/self/oom_score_adj") >> own;
  const std::string text = std::to_string(std::min(1000, own + limits::kOomScoreRaise));
  work.oom_score_size = text.copy(work.oom_score.data(), work.oom_score.size());
}

void bind(const WorkerSpec& spec, ChildWork& work) {
  CPU_ZERO(&work.cpus);
  for (const int cpu : spec.cpus) CPU_SET(static_cast<unsigned>(cpu), &work.cpus);
  work.binds_cpus = !spec.cpus.empty();
  for (const int node : spec.memory_nodes) {
    const auto word = static_cast<std::size_t>(node) / 64;
    if (word < work.memory_nodes.size()) work.memory_nodes[word] |= 1UL << (static_cast<unsigned>(node) % 64);
  }
  work.binds_memory = !spec.memory_nodes.empty();
}

// The cgroup that is full; the nearest one, if several are.
std::string processes_limit() {
  for (const Cgroup& cgroup : own_cgroups_with("pids")) {
    std::uint64_t most = 0;
    std::uint64_t now = 0;
    std::ifstream(cgroup.folder + "/pids.max") >> most;  // "max" stays 0
    std::ifstream(cgroup.folder + "/pids.current") >> now;
    if (most > 0 && now >= most) return "pids.max of cgroup " + cgroup.folder + " is " + std::to_string(most);
  }
  return "ulimit -u, or pids.max of the cgroup";
}

StartFailure explain_exec(const std::string& start, int error) {
  switch (error) {
    case ENOENT:
      // The file was there a moment ago, so it is the interpreter (of a script or of a dynamic program) that is
      // missing.
      return {base::kExitNotFound,
              start + "no such file, or the interpreter it names is missing (its first line; ldd)."};
    case ENOEXEC:
      return {base::kExitNotExecutable,
              start + "not a program for this machine. Another architecture, or a script without a #! line?"};
    case EACCES:
    case EPERM:
      return {base::kExitNotExecutable,
              start + "permission denied (the file, a directory above it, its interpreter, or a noexec mount)."};
    case E2BIG:
      return {base::kExitNotExecutable, start + "its arguments and environment are too long."};
    case ETXTBSY:
      return {base::kExitNotExecutable, start + "the file is being written."};
    default:
      return {base::kExitOwnFault, start + std::strerror(error) + "."};
  }
}

StartFailure explain(const std::string& program, Stage stage, int error) {
  const std::string start = "cannot start " + program + ": ";
  if (stage == Stage::exec) return explain_exec(start, error);
  const std::string reason = std::strerror(error);
  switch (stage) {
    case Stage::cgroup:
      return {base::kExitOwnFault, start + "cannot join the job's cgroup (" + reason + ")."};
    case Stage::streams:
      return {base::kExitOwnFault, start + "cannot connect its output (" + reason + ")."};
    case Stage::binding:
      return {base::kExitOwnFault, start + "cannot bind it to its CPUs (" + reason + "). See --numa-binding."};
    case Stage::orphaned:
      return {base::kExitOwnFault, start + "the launcher has ended."};
    default:
      break;
  }
  if (error == EAGAIN) {
    return {base::kExitOwnFault, start + "the limit of processes is reached (" + processes_limit() + ")."};
  }
  if (error == EMFILE || error == ENFILE) return {base::kExitOwnFault, start + "out of file descriptors (ulimit -n)."};
  return {base::kExitOwnFault, start + reason + "."};
}

// Makes the process, with a pidfd if the kernel can.
Spawned clone_child(ChildWork& work, const Stack& stack) {
  constexpr int kFlags = CLONE_VM | CLONE_VFORK | SIGCHLD;
  int pidfd = -1;
  Spawned spawned;
  if (work.streams.cgroup >= 0) {
    const int procs = std::exchange(work.streams.cgroup_procs, -1);
    spawned.pid = clone_into_cgroup(become_worker, &work, stack.bottom(), kStackBytes, work.streams.cgroup, &pidfd);
    if (spawned.pid >= 0) {
      spawned.pidfd.reset(pidfd);
      return spawned;
    }
    work.streams.cgroup_procs = procs;
  }
  spawned.pid = ::clone(become_worker, stack.top(), kFlags | CLONE_PIDFD, &work, &pidfd);
  if (spawned.pid < 0 && (errno == EINVAL || errno == ENOSYS || errno == EPERM)) {
    spawned.pid = ::clone(become_worker, stack.top(), kFlags, &work);
  }
  if (spawned.pid < 0) return spawned;
  if (pidfd < 0) pidfd = static_cast<int>(::syscall(SYS_pidfd_open, spawned.pid, 0));
  spawned.pidfd.reset(pidfd);
  return spawned;
}

}  // namespace

base::Result<Spawned, StartFailure> spawn_worker(const WorkerSpec& spec, const SpawnContext& context) {
  const std::vector<char*> arguments = pointers(spec.arguments);
  const std::vector<char*> environment = pointers(spec.environment);
  ChildWork work;
  work.program = spec.program.c_str();
  work.arguments = arguments.data();
  work.environment = environment.data();
  work.streams = context;
  work.launcher = ::getpid();
  work.descriptors = worker_descriptors();
  work.highest_descriptor = highest_descriptor();
  limit_core(spec.core, work);
  choose_oom_score(work);
  bind(spec, work);

  const Stack stack;
  if (!stack.valid()) return explain(spec.program, Stage::none, ENOMEM);
  const BlockedSignals blocked;
  Spawned spawned = clone_child(work, stack);
  if (spawned.pid < 0) return explain(spec.program, Stage::none, errno);
  if (work.failed_at == Stage::none) return spawned;
  ::waitpid(spawned.pid, nullptr, 0);
  return explain(spec.program, work.failed_at, work.error);
}

}  // namespace ddp::launcher
