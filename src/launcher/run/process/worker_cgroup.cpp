#include "launcher/run/process/worker_cgroup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/file.h"
#include "base/hash.h"
#include "base/random.h"
#include "launcher/limits.h"
#include "launcher/run/process/private_directory.h"
#include "launcher/start/facts/cgroups.h"

namespace ddp::launcher {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCgroupPrefix = "ddplaunch-job-";

bool is_populated(const fs::path& folder) {
  return base::read_file(folder / "cgroup.events").find("populated 1") != std::string::npos;
}

bool kill_in(const fs::path& folder, std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  for (auto pause = std::chrono::microseconds(100); is_populated(folder); pause = 2 * pause) {
    std::ofstream(folder / "cgroup.kill") << "1";
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::min(pause, std::chrono::microseconds(5000)));
  }
  return true;
}

// Also removes the groups that a launcher inside has created. The kernel removes no group that has processes.
void remove_tree(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.is_directory(ignored) && !entry.is_symlink(ignored)) remove_tree(entry.path());
  }
  ::rmdir(folder.c_str());
}

// Waits only a moment: this job need not wait for a process that cannot be killed.
void end_leftovers(const fs::path& parent) {
  const auto deadline = std::chrono::steady_clock::now() + 5 * limits::kGroupPoll;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(parent, ignored)) {
    if (!entry.path().filename().string().starts_with(kCgroupPrefix)) continue;
    const base::UniqueFd lock = lock_directory(entry.path());
    if (!lock) continue;
    kill_in(entry.path(),
            std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()));
    remove_tree(entry.path());
  }
}

}  // namespace

WorkerCgroup::WorkerCgroup() {
  const std::string parent = own_cgroup2_folder();
  if (parent.empty() || ::access(parent.c_str(), W_OK) != 0) return;
  // A launcher in another container may have the same pid and create a cgroup in the same place.
  path_ = parent + "/" + kCgroupPrefix + base::hex64(base::random64()).substr(0, 12) + "-" + std::to_string(::getpid());
}

bool WorkerCgroup::make() {
  if (path_.empty()) return false;
  end_leftovers(fs::path(path_).parent_path());
  // Another launcher may take the cgroup for a leftover and remove it before it is locked. It then has no files any
  // more.
  for (auto pause = std::chrono::milliseconds(1); !procs_ && pause < limits::kCgroupPatience; pause *= 2) {
    if (::mkdir(path_.c_str(), 0755) != 0 && errno != EEXIST) return false;
    folder_ = lock_directory(path_);
    if (folder_) procs_.reset(::open((path_ + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
    if (procs_ || (folder_ && errno != ENOENT && errno != ENODEV)) break;
    std::this_thread::sleep_for(pause);
  }
  // Without this file, the cgroup has the threaded type, or the kernel is old.
  if (procs_ && ::access((path_ + "/cgroup.kill").c_str(), W_OK) == 0) return true;
  procs_.reset();
  ::rmdir(path_.c_str());
  return false;
}

bool WorkerCgroup::kill_all(std::chrono::milliseconds limit) const {
  return kill_in(path_, limit);
}

void WorkerCgroup::remove() const {
  if (!path_.empty()) remove_tree(path_);
}

}  // namespace ddp::launcher
