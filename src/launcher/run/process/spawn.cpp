// Prepares the child of a worker before it executes its program, as an initialiser of Boost.Process. It makes only bare
// system calls on data that was prepared before.
#include "launcher/run/process/spawn.h"

#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <fstream>

#include "launcher/limits.h"
#include "launcher/run/process/process_texts.h"
#include "launcher/start/facts/cgroups.h"
#include "net/event_loop_asio.h"
#include "wire/record_ring_layout.h"
#include "wire/state_memory_layout.h"
#include "wire/status_page_layout.h"

namespace ddp::launcher {
namespace {

using boost::system::error_code;

bool is_target(int number, std::span<const DescriptorMove> moves) {
  return std::ranges::any_of(moves, [number](const DescriptorMove& move) {
    return move.from >= 0 && move.from != number && move.to == number;
  });
}

// Copies the descriptor to a free number that is no target. A copy with another number is closed at execve(), if no
// move replaces it before.
int copy_aside(int descriptor, std::span<const DescriptorMove> moves) {
  int copy = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
  while (copy >= 0 && is_target(copy, moves)) copy = ::fcntl(descriptor, F_DUPFD_CLOEXEC, copy + 1);
  return copy;
}

// The kernel's out-of-memory killer should kill a worker before it kills the launcher, which supervises all of them.
// While this object exists, the launcher has the worker's score, which a child inherits. If each child wrote its own
// score, the kernel would make entries of /proc for it and remove them at its end. That takes longer than all signals
// to it.
class RaisedOomScore {
 public:
  RaisedOomScore() : file_(::open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC)) {
    std::array<char, 8> text{};
    if (file_ && ::read(file_.get(), text.data(), text.size() - 1) <= 0) file_.reset();
    own_ = std::atoi(text.data());
    set(std::min(1000, own_ + limits::kOomScoreRaise));
  }
  ~RaisedOomScore() { set(own_); }

 private:
  void set(int score) const {
    const std::string text = std::to_string(score);
    if (file_) static_cast<void>(!::pwrite(file_.get(), text.data(), text.size(), 0));
  }

  base::UniqueFd file_;
  int own_ = 0;
};

class WorkerSetup {
 public:
  WorkerSetup(const WorkerSpec& spec, const WorkerDescriptors& descriptors)
      : descriptors_(descriptors),
        ignored_signals_(spec.ignored_signals),
        launcher_(::getpid()),
        limits_(limits_of(spec)) {
    moves_ = {{{descriptors.in, STDIN_FILENO},
               {descriptors.out, STDOUT_FILENO},
               {descriptors.err, STDERR_FILENO},
               {if_allowed(descriptors.page, wire::kPageDescriptor), wire::kPageDescriptor},
               {if_allowed(descriptors.ring, wire::kRingDescriptor), wire::kRingDescriptor},
               {if_allowed(descriptors.states, wire::kStateDescriptor), wire::kStateDescriptor}}};
    bind(spec);
  }

  // Runs in the child.
  error_code on_exec_setup(CloneLauncher& launch, const std::filesystem::path& /*program*/,
                           const char* const* /*words*/) {
    // If only ancestors may examine a process, this allows the launcher's tools to take its stacks.
    ::prctl(PR_SET_PTRACER, launcher_);
    const bool joins = descriptors_.cgroup_procs >= 0 && !launch.is_in_cgroup;
    if (joins && ::write(descriptors_.cgroup_procs, "0", 1) != 1) return failure(kNoCgroup);
    ::setrlimit(RLIMIT_NOFILE, &limits_.descriptors);
    ::setrlimit(RLIMIT_CORE, &limits_.core);
    for (const int signal : ignored_signals_) ::signal(signal, SIG_IGN);
    if (binds_cpus_ && ::sched_setaffinity(0, sizeof cpus_, &cpus_) != 0) return failure(kNoBinding);
    // Not every container allows this call. Memory then comes from the nodes of the CPUs, which is nearly the same.
    if (binds_memory_) {
      ::syscall(SYS_set_mempolicy, MPOL_PREFERRED, memory_nodes_.data(), memory_nodes_.size() * 64);
    }
    if (move_descriptors(moves_) != 0) return failure(kNoOutput);
    return {};
  }

  SetupFailure failed;

 private:
  error_code failure(const SetupFailure& what) {
    failed = what;
    return {errno, boost::system::system_category()};
  }

  // A worker that may not have so many descriptors runs without the page or the ring.
  int if_allowed(int descriptor, int number) const {
    return limits_.descriptors.rlim_cur > static_cast<rlim_t>(number) ? descriptor : -1;
  }

  void bind(const WorkerSpec& spec) {
    CPU_ZERO(&cpus_);
    for (const int cpu : spec.cpus) CPU_SET(static_cast<unsigned>(cpu), &cpus_);
    binds_cpus_ = !spec.cpus.empty();
    for (const int node : spec.memory_nodes) {
      const auto word = static_cast<std::size_t>(node) / 64;
      if (word < memory_nodes_.size()) memory_nodes_[word] |= 1UL << (static_cast<unsigned>(node) % 64);
    }
    binds_memory_ = !spec.memory_nodes.empty();
  }

  const WorkerDescriptors& descriptors_;
  const std::vector<int>& ignored_signals_;
  const pid_t launcher_;
  const WorkerLimits limits_;
  std::array<DescriptorMove, 6> moves_{};
  cpu_set_t cpus_{};
  bool binds_cpus_ = false;
  std::array<unsigned long, 16> memory_nodes_{};
  bool binds_memory_ = false;
};

// Names the limit of processes that is reached: the cgroup that is full, or the nearest one if several are full.
std::string processes_limit() {
  for (const Cgroup& cgroup : own_cgroups_with("pids")) {
    std::uint64_t most = 0;
    std::uint64_t now = 0;
    std::ifstream(cgroup.folder + "/pids.max") >> most;  // stays 0 for "max"
    std::ifstream(cgroup.folder + "/pids.current") >> now;
    if (most > 0 && now >= most) return cgroup_limit_text(cgroup.folder, most);
  }
  return kSomeLimitText;
}

}  // namespace

WorkerLimits limits_of(const WorkerSpec& spec) {
  WorkerLimits limits;
  ::getrlimit(RLIMIT_CORE, &limits.core);
  if (spec.core != CoreDumps::inherit) limits.core.rlim_cur = spec.core == CoreDumps::off ? 0 : limits.core.rlim_max;
  // 1024 descriptors are too few for NCCL on many ranks. A million slows down programs that close all of them.
  ::getrlimit(RLIMIT_NOFILE, &limits.descriptors);
  limits.descriptors.rlim_cur = std::min<rlim_t>(limits.descriptors.rlim_max, limits::kWorkerDescriptors);
  return limits;
}

base::Result<Spawned, StartFailure> spawn_worker(net::EventLoop& loop, const WorkerSpec& spec,
                                                 const WorkerDescriptors& descriptors) {
  const std::vector<const char*> arguments = null_terminated(spec.arguments);
  const std::vector<const char*> environment = null_terminated(spec.environment);
  WorkerSetup setup(spec, descriptors);
  CloneLauncher launch;
  launch.env = environment.data();
  launch.request.leads_session = true;
  launch.request.death_signal = SIGKILL;
  launch.request.cgroup = descriptors.cgroup;
  error_code error;
  const RaisedOomScore raised;
  OwnedProcess process = launch(loop.asio().context.get_executor(), error, spec.program, arguments.data(), setup);
  if (error) {
    const std::string limit = error.value() == EAGAIN ? processes_limit() : "";
    return start_failure(spec.program, launch.failed_at, setup.failed, error.value(), limit);
  }
  base::UniqueFd end(launch.pidfd < 0 ? -1 : ::fcntl(launch.pidfd, F_DUPFD_CLOEXEC, 0));
  return Spawned{std::move(process), std::move(end)};
}

int move_descriptors(std::span<DescriptorMove> moves) {
  for (DescriptorMove& move : moves) {
    if (move.from < 0 || !is_target(move.from, moves)) continue;
    move.from = copy_aside(move.from, moves);
    if (move.from < 0) return errno;
  }
  for (const DescriptorMove& move : moves) {
    if (move.from < 0) continue;
    const int result = move.from == move.to ? ::fcntl(move.to, F_SETFD, 0) : ::dup2(move.from, move.to);
    if (result < 0) return errno;
  }
  return 0;
}

}  // namespace ddp::launcher
