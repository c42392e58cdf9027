#include "launcher/run/process/process_host.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "base/check.h"
#include "base/file.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "launcher/limits.h"
#include "launcher/run/process/preloader.h"
#include "launcher/run/process/process_sample.h"
#include "launcher/run/process/process_tree.h"
#include "launcher/run/process/spawn.h"
#include "launcher/start/facts/standard_input.h"

namespace ddp::launcher {
namespace {

// The launcher's parent is its guardian, which has stayed in the session of the user's shell.
StandardInput input_of_job() {
  return standard_input(::getppid());
}

std::string file_of(pid_t pid, unsigned long descriptor) {
  std::error_code error;
  const std::string link = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(descriptor);
  return std::filesystem::read_symlink(link, error).string();
}

// Returns whether a thread of the process waits in a read of this file.
bool reads(pid_t pid, const std::string& file) {
  constexpr std::size_t kMostThreads = 64;
  const std::string folder = "/proc/" + std::to_string(pid) + "/task/";
  return std::ranges::any_of(sample_threads(pid, kMostThreads), [&](const ThreadSample& thread) {
    const std::string call = base::read_file(folder + std::to_string(thread.tid) + "/syscall");
    const std::vector<std::string> words = base::split(call, ' ');
    if (words.size() < 2 || words[0] != std::to_string(SYS_read)) return false;
    return file_of(pid, std::strtoul(words[1].c_str(), nullptr, 16)) == file;
  });
}

// A worker that reads the terminal may switch off its echo, as a debugger does at its prompt, and may end before it
// switches it on again. The destructor restores the mode that the standard input had when the object was made, unless
// the job is in the background. The user's shell has restored it then.
class TerminalLoan {
 public:
  TerminalLoan() {
    const StandardInput input = input_of_job();
    is_granted_ = input != StandardInput::background_terminal;
    termios mode{};
    if (input == StandardInput::terminal && ::tcgetattr(STDIN_FILENO, &mode) == 0) mode_ = mode;
  }
  ~TerminalLoan() {
    if (mode_ && input_of_job() == StandardInput::terminal) ::tcsetattr(STDIN_FILENO, TCSANOW, &*mode_);
  }
  TerminalLoan(const TerminalLoan&) = delete;
  TerminalLoan& operator=(const TerminalLoan&) = delete;

  // Returns whether the worker may have the standard input. The terminal of a job in the background belongs to others.
  bool is_granted() const { return is_granted_; }

  // Returns whether the worker waits for input. `processes` are its processes. A prompt that edits the line has
  // switched the terminal's own editing off, and waits in select(). Any other reader waits in read().
  bool is_awaited_by(std::span<const pid_t> processes) const {
    termios mode{};
    if (!mode_ || ::tcgetattr(STDIN_FILENO, &mode) != 0) return false;
    constexpr tcflag_t kEditing = ICANON | ECHO;
    if ((mode.c_lflag & kEditing) != (mode_->c_lflag & kEditing)) return true;
    const std::string terminal = file_of(::getpid(), STDIN_FILENO);
    return std::ranges::any_of(processes, [&](pid_t pid) { return reads(pid, terminal); });
  }

  // Returns whether another process group has the terminal, such as the user's shell after Ctrl-Z and bg.
  bool is_taken() const { return mode_ && input_of_job() == StandardInput::background_terminal; }

 private:
  bool is_granted_ = false;
  std::optional<termios> mode_;  // empty if the standard input is no terminal
};

struct Child {
  pid_t pid = 0;                           // also the id of its process group, which may outlive it
  OwnedProcess process;                    // owned until it is reaped
  base::UniqueFd end;                      // see Spawned::end
  std::unique_ptr<net::Watch> watch;       // destroyed before the descriptor
  std::unique_ptr<TerminalLoan> terminal;  // null if the worker does not read the standard input
  bool awaits_input = false;               // when it was stopped last, it waited for input of the terminal
  bool asked_to_end = false;
  bool is_interrupted = false;  // its group has received SIGINT, and nothing else so far
  // This is set once the leader is reaped. The worker has ended when its group is empty, too.
  std::optional<base::ExitStatus> status;
  std::optional<std::chrono::steady_clock::time_point> held_since;  // since when a tracer holds the dead process
  std::uint64_t peak_rss_bytes = 0;
};

base::ExitStatus status_from(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) return base::ExitStatus::exited(info.si_status);
  return base::ExitStatus::killed(info.si_status, info.si_code == CLD_DUMPED);
}

class LinuxProcessHost : public ProcessHost {
 public:
  LinuxProcessHost(net::EventLoop& loop, const WorkerCgroup* cgroup, Preloader* preloader)
      : loop_(loop), cgroup_(cgroup), preloader_(preloader), nothing_(::open("/dev/null", O_RDONLY | O_CLOEXEC)) {
    become_subreaper();
    // Children that this process had before it became a launcher (sh -c 'x & exec ddplaunch …') are not part of the
    // job. The loop reaps its own helpers, such as the preloader.
    for (const pid_t pid : descendants(::getpid(), loop.children())) foreign_.insert(pid);
    const std::array signals = {SIGCHLD};
    orphan_watch_ = loop_.on_signals(signals, [this](int) { child_ended(); });
  }

  // A worker that could not be killed has been reported. It is not waited for.
  ~LinuxProcessHost() override {
    for (auto& [local_rank, child] : children_) child.process.detach();
  }

  base::Result<pid_t, StartFailure> spawn(int local_rank, const WorkerSpec& spec,
                                          const WorkerDescriptors& inherited) override {
    WorkerDescriptors descriptors = inherited;
    std::unique_ptr<TerminalLoan> terminal = spec.reads_stdin ? std::make_unique<TerminalLoan>() : nullptr;
    if (!terminal || !terminal->is_granted()) descriptors.in = nothing_.get();
    if (cgroup_ != nullptr) {
      descriptors.cgroup_procs = cgroup_->procs_fd();
      descriptors.cgroup = cgroup_->folder_fd();
    }
    std::optional<Spawned> spawned = preloader_ != nullptr ? preloader_->fork(spec, descriptors) : std::nullopt;
    if (!spawned) {
      auto started = spawn_worker(loop_, spec, descriptors);
      if (!started) return started.error();
      spawned = std::move(started).value();
    }
    auto& [process, end] = *spawned;
    const pid_t pid = process.id();
    Child child{pid, std::move(process), std::move(end)};
    child.terminal = std::move(terminal);
    if (child.end)
      child.watch = loop_.watch_readable(child.end.get(), [this, local_rank] { leader_ended(local_rank); });
    DDP_CHECK(children_.emplace(local_rank, std::move(child)).second, local_rank);
    return pid;
  }

  std::vector<pid_t> processes_of(int local_rank) override {
    const auto child = children_.find(local_rank);
    if (child == children_.end()) return {};
    std::set<pid_t> others = foreign_;
    for (const auto& [rank, other] : children_) {
      if (rank != local_rank) others.insert(other.pid);
    }
    std::vector<pid_t> processes = descendants(::getpid(), others);
    // Programs that the launcher starts for itself are in its session. Each worker leads a separate one.
    std::erase_if(processes, [own = ::getsid(0)](pid_t pid) { return ::getsid(pid) == own; });
    return processes;
  }

  void on_exit(ExitCallback callback) override { on_exit_ = std::move(callback); }
  bool is_preparing() const override { return preloader_ != nullptr && preloader_->is_importing(); }

  bool signal(int local_rank, int signal, SignalTarget target) override {
    const auto entry = children_.find(local_rank);
    if (entry == children_.end()) return true;
    Child& child = entry->second;
    const bool is_interrupt = signal == SIGINT && target == SignalTarget::group;
    const bool asks_to_end = is_interrupt || signal == SIGTERM || signal == SIGKILL;
    if (asks_to_end) child.is_interrupted = is_interrupt;
    child.asked_to_end = child.asked_to_end || asks_to_end;
    if (signal == SIGSTOP && child.terminal) {
      child.awaits_input = child.terminal->is_awaited_by(processes_of(local_rank));
    }
    if (child.status) {
      for (const pid_t pid : group_members(child.pid)) ::kill(pid, signal);
      return true;
    }
    // The pid is still the worker's, because it has not been reaped yet.
    const int error = target == SignalTarget::group ? ::killpg(child.pid, signal) : ::kill(child.pid, signal);
    return error == 0 || errno != EPERM;
  }

  bool lacks_terminal() override {
    return std::ranges::any_of(children_, [](const auto& entry) {
      const Child& child = entry.second;
      return child.awaits_input && child.terminal->is_taken();
    });
  }

  std::vector<pid_t> leftovers() override {
    reap();
    std::vector<pid_t> left = descendants(::getpid(), not_left());
    std::erase_if(left, is_dead);
    return left;
  }

  std::vector<pid_t> end_leftovers() override {
    const std::set<pid_t> except = not_left();
    if (cgroup_ != nullptr && children_.empty()) cgroup_->kill_all(limits::kLeftoverWait);
    return kill_descendants(except, limits::kLeftoverWait);
  }

 private:
  // Returns the children of the launcher that are not left over from a worker.
  std::set<pid_t> not_left() const {
    std::set<pid_t> others = foreign_;
    for (const auto& [local_rank, child] : children_) others.insert(child.pid);  // unkillable, and reported already
    others.insert(loop_.children().begin(), loop_.children().end());
    return others;
  }

  // A child has died: an orphan of a group that is waited for or, without pidfds, a leader.
  void child_ended() {
    reap();
    std::vector<int> leaders;
    std::vector<int> groups;
    for (const auto& [local_rank, child] : children_) {
      if (child.status) {
        groups.push_back(local_rank);
      } else if (!child.end && !child.watch) {
        leaders.push_back(local_rank);
      }
    }
    for (const int local_rank : groups) await_group(local_rank);
    for (const int local_rank : leaders) leader_ended(local_rank);
  }

  void leader_ended(int local_rank) {
    Child& child = children_.at(local_rank);
    siginfo_t info{};
    const auto pid = static_cast<id_t>(child.pid);
    const int error = ::waitid(P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT);
    DDP_CHECK(error == 0, errno);
    if (info.si_pid == 0) {
      if (!child.end) return;  // another child has died
      // The process is dead, but a tracer (gdb, strace) still holds it: the pidfd is readable, but there is no status.
      if (!child.held_since) child.held_since = Clock::now();
      if (Clock::now() - *child.held_since >= limits::kHeldByTracer) child.status = status_of_zombie(child.pid);
      if (!child.status) {
        child.watch = loop_.at(Clock::now() + limits::kGroupPoll, [this, local_rank] { leader_ended(local_rank); });
        return;
      }
    } else {
      child.status = status_from(info);
    }
    // The group is signalled before its leader is reaped, while the id cannot belong to another group. If a worker
    // failed by itself, the rest of its group is killed. A worker that was asked to end may be a shell around the real
    // program. That program has not been asked yet, and has the rest of the grace.
    if (child.asked_to_end) {
      if (!child.is_interrupted) ::killpg(child.pid, SIGTERM);
    } else if (!child.status->success()) {
      ::killpg(child.pid, SIGKILL);
    }
    rusage usage{};
    ::wait4(child.pid, nullptr, WNOHANG, &usage);
    child.process.detach();  // its pid may belong to another process from now on, which the destructor would kill
    child.peak_rss_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
    await_group(local_rank);
  }

  void await_group(int local_rank) {
    reap();
    Child& child = children_.at(local_rank);
    if (child.asked_to_end && ::killpg(child.pid, 0) == 0 && !group_members(child.pid).empty()) {
      ::killpg(child.pid, SIGCONT);  // a stopped process could not react
      child.watch = loop_.at(Clock::now() + limits::kGroupPoll, [this, local_rank] { await_group(local_rank); });
      return;
    }
    const WorkerExit exit{*child.status, child.peak_rss_bytes};
    children_.erase(local_rank);
    if (on_exit_) on_exit_(local_rank, exit);
  }

  // Returns descendants of the launcher in that group. After its leader is gone, the id alone proves nothing.
  std::vector<pid_t> group_members(pid_t group) const {
    std::vector<pid_t> members;
    for (const pid_t pid : recent_descendants()) {
      if (::getpgid(pid) == group && !is_dead(pid)) members.push_back(pid);
    }
    return members;
  }

  // Many groups are checked at the same moment, and a scan reads files of every thread of the job.
  const std::vector<pid_t>& recent_descendants() const {
    const auto now = Clock::now();
    if (now - scanned_at_ >= limits::kGroupPoll / 2) {
      scanned_ = descendants(::getpid(), foreign_);
      scanned_at_ = Clock::now();
    }
    return scanned_;
  }

  void reap() {
    const auto reaped = reap_orphans([this](pid_t pid) {
      return loop_.children().contains(pid) || std::ranges::any_of(children_, [pid](const auto& entry) {
               return entry.second.pid == pid && !entry.second.status;
             });
    });
    for (const pid_t pid : reaped) foreign_.erase(pid);
  }

  using Clock = std::chrono::steady_clock;

  net::EventLoop& loop_;
  const WorkerCgroup* const cgroup_;
  Preloader* const preloader_;
  const base::UniqueFd nothing_;
  std::set<pid_t> foreign_;
  std::map<int, Child> children_;  // by local rank; erased when ended
  mutable std::vector<pid_t> scanned_;
  mutable Clock::time_point scanned_at_{};
  std::unique_ptr<net::Watch> orphan_watch_;
  ExitCallback on_exit_;
};

}  // namespace

std::unique_ptr<ProcessHost> make_process_host(net::EventLoop& loop, const WorkerCgroup* cgroup, Preloader* preloader) {
  return std::make_unique<LinuxProcessHost>(loop, cgroup, preloader);
}

}  // namespace ddp::launcher
