#include "launcher/process/cgroup_folder.h"

#include <fstream>
#include <sstream>

#include "base/text.h"

namespace ddp::launcher {
namespace {

std::string read_all(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string version1_folder(const std::string& controller, const std::string& proc_cgroup,
                            const std::string& mountinfo) {
  const std::string wanted = "," + controller + ",";
  std::string own;
  for (const std::string& line : base::split(proc_cgroup, '\n')) {
    const std::vector<std::string> parts = base::split(line, ':');
    if (parts.size() >= 3 && ("," + parts[1] + ",").find(wanted) != std::string::npos) own = parts[2];
  }
  if (own.empty()) return "";
  for (const std::string& line : base::split(mountinfo, '\n')) {
    const std::vector<std::string> words = base::split(line, ' ');
    const bool mount = line.find(" - cgroup ") != std::string::npos && !words.empty() &&
                       ("," + words.back() + ",").find(wanted) != std::string::npos;
    if (!mount || words.size() < 5) continue;
    // In a container the mount's root is the container's own group.
    const bool inside = words[3] != "/" && own.starts_with(words[3]);
    const std::string below = inside ? own.substr(words[3].size()) : words[3] == "/" ? own : "";
    return below == "/" ? words[4] : words[4] + below;
  }
  return "";
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

std::vector<CgroupFolder> cgroups_with(const std::string& controller, const std::string& proc_cgroup,
                                       const std::string& mountinfo) {
  std::vector<CgroupFolder> result;
  const auto add = [&](std::string folder, bool version2) {
    // Up to, not into, the file system's own root.
    for (int depth = 0; depth < 32 && folder.size() > 1 && folder != "/sys/fs/cgroup"; ++depth) {
      result.push_back({folder, version2});
      folder.resize(folder.rfind('/') == 0 ? 1 : folder.rfind('/'));
      if (folder == "/sys/fs" || folder == "/sys") break;
    }
  };
  if (const std::string folder = version1_folder(controller, proc_cgroup, mountinfo); !folder.empty())
    add(folder, false);
  if (const std::string folder = cgroup2_folder(proc_cgroup, mountinfo); !folder.empty()) add(folder, true);
  return result;
}

std::string own_cgroup2_folder() {
  return cgroup2_folder(read_all("/proc/self/cgroup"), read_all("/proc/self/mountinfo"));
}

std::vector<CgroupFolder> own_cgroups_with(const std::string& controller) {
  return cgroups_with(controller, read_all("/proc/self/cgroup"), read_all("/proc/self/mountinfo"));
}

}  // namespace ddp::launcher
