#include "launcher/process/process_tree.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <string>
#include <thread>

namespace ddp::launcher {
namespace {

std::vector<pid_t> children_of(pid_t pid) {
  // A process that forks from several threads has a list for each of them; ours and nearly all have one thread that
  // does.
  std::vector<pid_t> result;
  std::ifstream file("/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) + "/children");
  for (pid_t child = 0; file >> child;) result.push_back(child);
  return result;
}

void collect(pid_t pid, const std::set<pid_t>& except, std::vector<pid_t>& result) {
  for (const pid_t child : children_of(pid)) {
    if (except.contains(child)) continue;
    result.push_back(child);
    collect(child, except, result);
  }
}

}  // namespace

void become_subreaper() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

std::vector<pid_t> descendants(pid_t root, const std::set<pid_t>& except) {
  std::vector<pid_t> result;
  collect(root, except, result);
  return result;
}

std::vector<pid_t> reap_orphans(const std::function<bool(pid_t)>& is_known) {
  std::vector<pid_t> reaped;
  while (true) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return reaped;
    // waitid shows the same child again and again: the owner of a known one must come first.
    if (is_known(info.si_pid)) return reaped;
    reaped.push_back(info.si_pid);
    ::waitid(P_PID, static_cast<id_t>(info.si_pid), &info, WEXITED | WNOHANG);
  }
}

std::vector<pid_t> kill_descendants(const std::set<pid_t>& except, std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (true) {
    std::vector<pid_t> left = descendants(::getpid(), except);
    if (left.empty() || std::chrono::steady_clock::now() > deadline) return left;
    for (const pid_t pid : left) ::kill(pid, SIGKILL);
    // Those whose parent died are ours to reap; the others' turn comes when theirs has.
    for (const pid_t pid : left) ::waitpid(pid, nullptr, WNOHANG);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace ddp::launcher
