#include "launcher/process/worker_cgroup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "base/text.h"

namespace ddp::launcher {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "ddplaunch-";

std::string read_all(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void remove_leftovers(const fs::path& parent) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(parent, ignored)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kPrefix)) continue;
    const auto pid = base::parse_integer(name.substr(std::string_view(kPrefix).size()), 1, 1 << 30);
    // The kernel refuses to remove one that has processes.
    if (pid && !fs::exists("/proc/" + std::to_string(*pid))) ::rmdir(entry.path().c_str());
  }
}

}  // namespace

std::string cgroup2_folder(const std::string& proc_cgroup, const std::string& mountinfo) {
  std::string own;
  for (const std::string& line : base::split(proc_cgroup, '\n')) {
    if (line.starts_with("0::")) own = line.substr(3);
  }
  if (own.empty()) return "";
  // mountinfo: id parent major:minor root mount-point options … - type source options
  for (const std::string& line : base::split(mountinfo, '\n')) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos || !line.substr(dash + 3).starts_with("cgroup2 ")) continue;
    const std::vector<std::string> words = base::split(line, ' ');
    if (words.size() < 5) continue;
    const std::string& root = words[3];
    const std::string& mount_point = words[4];
    if (root != "/" && !own.starts_with(root)) continue;
    const std::string below = root == "/" ? own : own.substr(root.size());
    return below.empty() || below == "/" ? mount_point : mount_point + below;
  }
  return "";
}

WorkerCgroup::WorkerCgroup() {
  const std::string parent = cgroup2_folder(read_all("/proc/self/cgroup"), read_all("/proc/self/mountinfo"));
  if (parent.empty() || ::access(parent.c_str(), W_OK) != 0) return;
  path_ = parent + "/" + kPrefix + std::to_string(::getpid());
}

bool WorkerCgroup::make() {
  if (path_.empty()) return false;
  remove_leftovers(fs::path(path_).parent_path());
  if (::mkdir(path_.c_str(), 0755) != 0) return false;
  procs_.reset(::open((path_ + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
  // A cgroup of the threaded type, or an old kernel.
  if (procs_ && ::access((path_ + "/cgroup.kill").c_str(), W_OK) == 0) {
    folder_.reset(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    return true;
  }
  procs_.reset();
  ::rmdir(path_.c_str());
  return false;
}

void WorkerCgroup::remove() const {
  if (!path_.empty()) ::rmdir(path_.c_str());
}

bool WorkerCgroup::populated() const {
  return read_all(path_ + "/cgroup.events").find("populated 1") != std::string::npos;
}

bool WorkerCgroup::kill_all(std::chrono::milliseconds limit) const {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  for (auto pause = std::chrono::microseconds(100); populated(); pause = 2 * pause) {
    std::ofstream(path_ + "/cgroup.kill") << "1";
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::min(pause, std::chrono::microseconds(5000)));
  }
  return true;
}

}  // namespace ddp::launcher
