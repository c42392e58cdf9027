#include "launcher/start/facts/cgroups.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/file.h"
#include "base/text.h"

namespace ddp::launcher {
namespace {

namespace fs = std::filesystem;

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

// Describes one line of mountinfo for a control group file system.
struct Mount {
  std::string shown;  // the group that the mount point shows, usually "/"
  fs::path point;
  bool version2 = false;
};

// Parses a line such as "31 23 0:28 / /sys/fs/cgroup rw shared:1 - cgroup2 cgroup2 rw". The number of fields before the
// dash varies.
std::optional<Mount> mount_of(const std::string& line, const std::string& controller) {
  const std::size_t dash = line.find(" - ");
  if (dash == std::string::npos) return std::nullopt;
  const std::vector<std::string> before = base::split(line.substr(0, dash), ' ');
  const std::vector<std::string> after = base::split(line.substr(dash + 3), ' ');
  if (before.size() < 5 || after.size() < 3) return std::nullopt;
  const bool version2 = after[0] == "cgroup2";
  const bool version1 = after[0] == "cgroup" && contains(base::split(after[2], ','), controller);
  if (!version1 && !version2) return std::nullopt;
  return Mount{before[3], before[4], version2};
}

// Returns this process's group from the text of /proc/self/cgroup: "0::/a/b" in version 2, "1:cpu,cpuacct:/a/b" in
// version 1.
std::optional<std::string> group_of(const std::string& proc_cgroup, const std::string& controller, bool version2) {
  for (const std::string& line : base::split(proc_cgroup, '\n')) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::vector<std::string> controllers = base::split(line.substr(first + 1, second - first - 1), ',');
    if (version2 ? line.starts_with("0::") : contains(controllers, controller)) return line.substr(second + 1);
  }
  return std::nullopt;
}

// Returns the part of the group's path below the group that the mount point shows, or an empty path if there is none.
// In a container without its own cgroup namespace, the mount point shows the container's group. The outer part of that
// group's path does not exist inside the container.
fs::path below_mount(const std::string& group, const std::string& shown) {
  if (group.find("/..") != std::string::npos) return {};  // it is outside the cgroup namespace
  if (shown == "/") return fs::path(group).relative_path();
  if (group == shown || !group.starts_with(shown + "/")) return {};
  return group.substr(shown.size() + 1);
}

}  // namespace

std::vector<Cgroup> cgroups_with(const std::string& controller, const std::string& proc_cgroup,
                                 const std::string& mountinfo) {
  std::vector<Cgroup> groups;
  for (const std::string& line : base::split(mountinfo, '\n')) {
    const auto mount = mount_of(line, controller);
    if (!mount) continue;
    const auto group = group_of(proc_cgroup, controller, mount->version2);
    if (!group) continue;
    for (fs::path below = below_mount(*group, mount->shown); !below.empty(); below = below.parent_path()) {
      groups.push_back({mount->point / below, mount->version2});
    }
    groups.push_back({mount->point, mount->version2});
  }
  std::ranges::stable_sort(groups, {}, &Cgroup::version2);
  return groups;
}

std::vector<Cgroup> own_cgroups_with(const std::string& controller, const std::string& root) {
  // The mounts are cached: they do not change, and the kernel takes longer to list them than all other facts take to
  // read.
  static const std::string own_mounts = base::read_file("/proc/self/mountinfo");
  return cgroups_with(controller, base::read_file(root + "/proc/self/cgroup"),
                      root.empty() ? own_mounts : base::read_file(root + "/proc/self/mountinfo"));
}

std::string own_cgroup2_folder() {
  const std::vector<Cgroup> groups = own_cgroups_with("");
  const auto found = std::ranges::find(groups, true, &Cgroup::version2);
  return found == groups.end() ? "" : found->folder;
}

}  // namespace ddp::launcher
