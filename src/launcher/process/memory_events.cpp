#include "launcher/process/memory_events.h"

#include <fstream>
#include <sstream>

#include "base/text.h"
#include "launcher/process/worker_cgroup.h"

namespace ddp::launcher {
namespace {

std::string read_all(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The number after `name` in a file of lines "name number"; 0 without it.
std::uint64_t counter(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  std::string word;
  std::uint64_t value = 0;
  while (file >> word >> value) {
    if (word == name) return value;
  }
  return 0;
}

// A file with one number; 0 for "max", nothing, or the huge number that version 1 means no limit with.
std::uint64_t number_in(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  file >> value;
  return file && value < (std::uint64_t{1} << 60) ? value : 0;
}

std::string version1_folder(const std::string& proc_cgroup, const std::string& mountinfo) {
  std::string own;
  for (const std::string& line : base::split(proc_cgroup, '\n')) {
    const std::vector<std::string> parts = base::split(line, ':');
    if (parts.size() >= 3 && ("," + parts[1] + ",").find(",memory,") != std::string::npos) own = parts[2];
  }
  if (own.empty()) return "";
  for (const std::string& line : base::split(mountinfo, '\n')) {
    const std::vector<std::string> words = base::split(line, ' ');
    const bool memory = line.find(" - cgroup ") != std::string::npos && !words.empty() &&
                        ("," + words.back() + ",").find(",memory,") != std::string::npos;
    if (!memory || words.size() < 5) continue;
    // In a container the mount's root is the container's own group.
    const bool inside = words[3] != "/" && own.starts_with(words[3]);
    const std::string below = inside ? own.substr(words[3].size()) : words[3] == "/" ? own : "";
    return below == "/" ? words[4] : words[4] + below;
  }
  return "";
}

}  // namespace

std::vector<MemoryCgroup> memory_cgroups(const std::string& proc_cgroup, const std::string& mountinfo) {
  std::vector<MemoryCgroup> result;
  const auto add = [&](std::string folder, bool version2) {
    // Up to, not into, the file system's own root.
    for (int depth = 0; depth < 32 && folder.size() > 1 && folder != "/sys/fs/cgroup"; ++depth) {
      result.push_back({folder, version2});
      folder.resize(folder.rfind('/') == 0 ? 1 : folder.rfind('/'));
      if (folder == "/sys/fs" || folder == "/sys") break;
    }
  };
  if (const std::string folder = version1_folder(proc_cgroup, mountinfo); !folder.empty()) add(folder, false);
  if (const std::string folder = cgroup2_folder(proc_cgroup, mountinfo); !folder.empty()) add(folder, true);
  return result;
}

OomWatch::OomWatch()
    : OomWatch(memory_cgroups(read_all("/proc/self/cgroup"), read_all("/proc/self/mountinfo")), "/proc/vmstat") {}

OomWatch::OomWatch(std::vector<MemoryCgroup> cgroups, std::string vmstat)
    : cgroups_(std::move(cgroups)), vmstat_(std::move(vmstat)) {
  for (const MemoryCgroup& cgroup : cgroups_) seen_.push_back(kills_in(cgroup));
  seen_.push_back(kills_of_machine());
}

std::uint64_t OomWatch::kills_in(const MemoryCgroup& cgroup) const {
  return counter(cgroup.folder + (cgroup.version2 ? "/memory.events" : "/memory.oom_control"), "oom_kill");
}

std::uint64_t OomWatch::kills_of_machine() const {
  return counter(vmstat_, "oom_kill");
}

std::optional<OomKill> OomWatch::new_kill() {
  std::optional<OomKill> kill;
  for (std::size_t i = 0; i < seen_.size(); ++i) {
    const bool machine = i == cgroups_.size();
    const std::uint64_t now = machine ? kills_of_machine() : kills_in(cgroups_[i]);
    const bool grown = now > seen_[i];
    seen_[i] = now;
    if (!grown || kill) continue;
    kill = OomKill{};
    if (machine) continue;
    const MemoryCgroup& cgroup = cgroups_[i];
    kill->where = cgroup.folder;
    kill->limit_bytes = number_in(cgroup.folder + (cgroup.version2 ? "/memory.max" : "/memory.limit_in_bytes"));
    kill->peak_bytes = number_in(cgroup.folder + (cgroup.version2 ? "/memory.peak" : "/memory.max_usage_in_bytes"));
  }
  return kill;
}

}  // namespace ddp::launcher
