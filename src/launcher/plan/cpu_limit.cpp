#include "launcher/plan/cpu_limit.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/text.h"

namespace ddp::launcher {
namespace {

namespace fs = std::filesystem;

// A line of proc/self/mountinfo for a file system of control groups.
struct Mount {
  std::string shown;  // the group that the mount point shows, usually "/"
  std::string point;
  bool version2 = false;
};

// "31 23 0:28 / /sys/fs/cgroup rw shared:1 - cgroup2 cgroup2 rw": what stands before the dash has a varying length.
std::optional<Mount> cpu_mount(const std::string& line) {
  const std::size_t dash = line.find(" - ");
  if (dash == std::string::npos) return std::nullopt;
  const std::vector<std::string> before = base::split(line.substr(0, dash), ' ');
  const std::vector<std::string> after = base::split(line.substr(dash + 3), ' ');
  if (before.size() < 5 || after.size() < 3) return std::nullopt;
  const std::vector<std::string> options = base::split(after[2], ',');
  const bool version2 = after[0] == "cgroup2";
  const bool version1 = after[0] == "cgroup" && std::ranges::find(options, "cpu") != options.end();
  if (!version1 && !version2) return std::nullopt;
  return Mount{before[3], before[4], version2};
}

// Our group by proc/self/cgroup: "0::/a/b" of version 2, "1:cpu,cpuacct:/a/b" of version 1.
std::optional<std::string> own_group(const std::string& text, bool version2) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::vector<std::string> controllers = base::split(line.substr(first + 1, second - first - 1), ',');
    const bool ours = version2 ? line.starts_with("0::") : std::ranges::find(controllers, "cpu") != controllers.end();
    if (ours) return line.substr(second + 1);
  }
  return std::nullopt;
}

std::string read(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::optional<double> ratio(const std::string& quota, const std::string& period) {
  const auto allowed = base::parse_number(quota);
  const auto every = base::parse_number(period);
  if (!allowed || !every || *allowed <= 0 || *every <= 0) return std::nullopt;
  return *allowed / *every;
}

std::optional<double> limit_of_group(const fs::path& group, bool version2) {
  const auto first_line = [](const std::string& text) { return text.substr(0, text.find('\n')); };
  if (!version2) {
    // No limit is -1.
    return ratio(first_line(read(group / "cpu.cfs_quota_us")), first_line(read(group / "cpu.cfs_period_us")));
  }
  // No limit is "max 100000".
  const std::vector<std::string> words = base::split(first_line(read(group / "cpu.max")), ' ');
  return words.size() == 2 ? ratio(words[0], words[1]) : std::nullopt;
}

// The part of our group's path below what the mount point shows; in a container without a namespace of its own for
// control groups it shows our own group, whose path outside has no counterpart inside.
fs::path below_mount(const std::string& group, const std::string& shown) {
  if (shown == "/") return fs::path(group).relative_path();
  if (group == shown || !group.starts_with(shown + "/")) return {};
  return group.substr(shown.size() + 1);
}

}  // namespace

std::vector<int> affinity_cpus() {
  // The kernel refuses a set that is smaller than its own number of CPUs.
  for (int most = CPU_SETSIZE; most <= (1 << 18); most *= 2) {
    cpu_set_t* set = CPU_ALLOC(static_cast<std::size_t>(most));
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(most));
    CPU_ZERO_S(bytes, set);
    std::vector<int> cpus;
    if (::sched_getaffinity(0, bytes, set) == 0) {
      for (int cpu = 0; cpu < most; ++cpu) {
        if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes, set)) cpus.push_back(cpu);
      }
    }
    CPU_FREE(set);
    if (!cpus.empty()) return cpus;
  }
  return {0};
}

std::optional<double> cgroup_cpu_limit(const std::string& root) {
  const std::string groups = read(fs::path(root) / "proc/self/cgroup");
  std::istringstream mounts(read(fs::path(root) / "proc/self/mountinfo"));
  std::optional<double> smallest;
  for (std::string line; std::getline(mounts, line);) {
    const auto mount = cpu_mount(line);
    if (!mount) continue;
    const auto group = own_group(groups, mount->version2);
    if (!group) continue;
    const fs::path top = fs::path(root) / fs::path(mount->point).relative_path();
    fs::path below = below_mount(*group, mount->shown);
    for (bool at_top = false; !at_top; below = below.parent_path()) {
      at_top = below.empty();
      const auto limit = limit_of_group(at_top ? top : top / below, mount->version2);
      if (limit) smallest = std::min(*limit, smallest.value_or(*limit));
    }
  }
  return smallest;
}

int usable_cpus(int affinity, std::optional<double> limit) {
  if (!limit || *limit >= affinity) return std::max(1, affinity);
  // A quota of exactly two CPUs must not become three by rounding errors.
  return std::max(1, static_cast<int>(std::ceil(*limit - 1e-9)));
}

}  // namespace ddp::launcher
