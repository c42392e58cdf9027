#include "launcher/run/process/process_tree.h"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "base/process_stat.h"
#include "base/text.h"
#include "base/unique_fd.h"

namespace ddp::launcher {
namespace {

namespace fs = std::filesystem;

pid_t parent_of(pid_t pid) {
  const auto stat = base::read_process_stat(pid);
  return stat ? stat->parent : 0;
}

// This is used if the kernel keeps no lists of children.
std::vector<pid_t> children_by_search(pid_t pid) {
  std::vector<pid_t> result;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    const auto candidate = base::parse_integer(entry.path().filename().string(), 1, 1 << 30);
    if (candidate && parent_of(static_cast<pid_t>(*candidate)) == pid) result.push_back(static_cast<pid_t>(*candidate));
  }
  return result;
}

void kill_child_of(pid_t parent, pid_t pid) {
  const base::UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd) {
    // Without pidfds, only the pids of the launcher's own children cannot pass to other processes. The other
    // descendants become its children one by one.
    if (parent == ::getpid()) ::kill(pid, SIGKILL);
    return;
  }
  const std::vector<pid_t> now = children_of(parent);
  if (std::ranges::find(now, pid) == now.end()) return;
  ::syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0);
}

bool has_no_children() {
  siginfo_t info{};
  return ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD;
}

void kill_tree(pid_t root, const std::set<pid_t>& except) {
  for (const pid_t child : children_of(root)) {
    if (except.contains(child)) continue;
    // The children are killed first: once their parent is dead, they are found elsewhere.
    kill_tree(child, except);
    kill_child_of(root, child);
  }
}

}  // namespace

void become_subreaper() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

std::vector<pid_t> children_of(pid_t pid) {
  static const bool kernel_lists_children = fs::exists("/proc/thread-self/children");
  if (!kernel_lists_children) return children_by_search(pid);
  std::vector<pid_t> result;
  std::error_code ignored;
  for (const auto& thread : fs::directory_iterator("/proc/" + std::to_string(pid) + "/task", ignored)) {
    std::ifstream file(thread.path() / "children");
    for (pid_t child = 0; file >> child;) result.push_back(child);
  }
  return result;
}

bool has_own_pids() {
  // The initial namespace has a fixed number (PROC_PID_INIT_INO of the kernel).
  std::error_code error;
  return fs::read_symlink("/proc/self/ns/pid", error) != "pid:[4026531836]";
}

bool is_dead(pid_t pid) {
  const auto stat = base::read_process_stat(pid);
  return !stat || stat->state == 'Z' || stat->state == 'X';
}

std::vector<pid_t> descendants(pid_t root, const std::set<pid_t>& except) {
  std::vector<pid_t> result;
  for (const pid_t child : children_of(root)) {
    if (except.contains(child)) continue;
    result.push_back(child);
    const std::vector<pid_t> below = descendants(child, except);
    result.insert(result.end(), below.begin(), below.end());
  }
  return result;
}

std::vector<pid_t> reap_orphans(const std::function<bool(pid_t)>& is_known) {
  std::vector<pid_t> reaped;
  while (true) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return reaped;
    // waitid() shows the same child again and again, so the owner of a known child must reap it first.
    if (is_known(info.si_pid)) return reaped;
    reaped.push_back(info.si_pid);
    ::waitid(P_PID, static_cast<id_t>(info.si_pid), &info, WEXITED | WNOHANG);
  }
}

std::vector<pid_t> kill_descendants(const std::set<pid_t>& except, std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  int empty_scans = 0;
  for (auto pause = std::chrono::microseconds(100);; pause = std::min(2 * pause, std::chrono::microseconds(5000))) {
    kill_tree(::getpid(), except);
    // The launcher reaps those whose parent has died. It reaps the others when their parents have died.
    for (const pid_t pid : children_of(::getpid())) {
      if (!except.contains(pid)) ::waitpid(pid, nullptr, WNOHANG);
    }
    std::vector<pid_t> left = descendants(::getpid(), except);
    if (std::chrono::steady_clock::now() > deadline) {
      std::erase_if(left, is_dead);  // a debugger still holds them
      return left;
    }
    // A list of children is not exact while some of them die. The answer that there are none at all is exact.
    empty_scans = left.empty() ? empty_scans + 1 : 0;
    if (left.empty() && (empty_scans == 3 || has_no_children())) return left;
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace ddp::launcher
