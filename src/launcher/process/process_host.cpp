#include "launcher/process/process_host.h"

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <map>

#include "base/check.h"
#include "base/limits.h"
#include "base/unique_fd.h"
#include "launcher/process/process_tree.h"

// glibc 2.36's <sys/pidfd.h> lacks extern "C", and waitid's P_PIDFD is an enumerator there; the raw calls serve both.
namespace ddp::launcher {
namespace {

struct Child {
  pid_t pid = 0;
  base::UniqueFd pidfd;
  std::unique_ptr<net::Watch> watch;  // destroyed before the descriptor
};

base::ExitStatus status_from(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) return base::ExitStatus::exited(info.si_status);
  return base::ExitStatus::killed(info.si_status, info.si_code == CLD_DUMPED);
}

class LinuxProcessHost : public ProcessHost {
 public:
  explicit LinuxProcessHost(net::EventLoop& loop) : loop_(loop) {
    become_subreaper();
    // Children that this process had before it became a launcher (sh -c 'x & exec ddplaunch …') are none of ours.
    for (const pid_t pid : descendants(::getpid(), {})) strangers_.insert(pid);
    const std::array signals = {SIGCHLD};
    orphan_watch_ = loop_.on_signals(signals, [this](int) { reap(); });
  }

  base::Result<pid_t, SpawnFailure> spawn(int local_rank, const WorkerSpec& spec) override {
    auto pid = spawn_child(spec);
    if (!pid) return pid;
    const auto pidfd = static_cast<int>(::syscall(SYS_pidfd_open, pid.value(), 0));
    DDP_CHECK(pidfd >= 0, errno);
    const auto [child, is_new] = children_.emplace(local_rank, Child{pid.value(), base::UniqueFd(pidfd), nullptr});
    DDP_CHECK(is_new, local_rank);
    child->second.watch = loop_.watch_readable(pidfd, [this, local_rank] { ended(local_rank); });
    return pid;
  }

  void on_exit(ExitCallback callback) override { on_exit_ = std::move(callback); }

  void signal(int local_rank, int signal, SignalTarget target) override {
    const auto child = children_.find(local_rank);
    if (child == children_.end()) return;
    if (target == SignalTarget::group) {
      ::killpg(child->second.pid, signal);
    } else {
      ::syscall(SYS_pidfd_send_signal, child->second.pidfd.get(), signal, nullptr, 0);
    }
  }

  std::vector<pid_t> end_leftovers() override {
    std::set<pid_t> except = strangers_;
    for (const auto& [local_rank, child] : children_) except.insert(child.pid);  // unkillable, reported already
    return kill_descendants(except, limits::kLeftoverWait);
  }

 private:
  void ended(int local_rank) {
    const auto child = children_.find(local_rank);
    siginfo_t info{};
    const auto pidfd = static_cast<id_t>(child->second.pidfd.get());
    DDP_CHECK(::waitid(P_PIDFD, pidfd, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0, errno);
    const base::ExitStatus status = status_from(info);
    // What a failed worker leaves in its group ends with it. The group is signalled before its leader is reaped, while
    // the number cannot be anybody else's.
    if (!status.success()) ::killpg(child->second.pid, SIGKILL);
    ::waitid(P_PIDFD, pidfd, &info, WEXITED);
    children_.erase(child);
    reap();
    if (on_exit_) on_exit_(local_rank, status);
  }

  void reap() {
    reap_orphans([this](pid_t pid) {
      if (strangers_.contains(pid)) return true;
      for (const auto& [local_rank, child] : children_) {
        if (child.pid == pid) return true;
      }
      return false;
    });
  }

  net::EventLoop& loop_;
  std::set<pid_t> strangers_;
  std::map<int, Child> children_;  // by local rank; erased when reaped
  std::unique_ptr<net::Watch> orphan_watch_;
  ExitCallback on_exit_;
};

}  // namespace

std::unique_ptr<ProcessHost> make_process_host(net::EventLoop& loop) {
  return std::make_unique<LinuxProcessHost>(loop);
}

}  // namespace ddp::launcher
