// The control groups that a process is in, and where their files are.
#pragma once

#include <string>
#include <vector>

namespace ddp::launcher {

struct Cgroup {
  std::string folder;
  bool version2 = true;

  bool operator==(const Cgroup&) const = default;
};

// Pure. The groups by which a controller ("memory", "pids", "cpu") may limit a process, from the texts of its
// /proc/PID/cgroup and /proc/PID/mountinfo: its own and those above it as far as they are mounted, nearest first, those
// of version 1 before those of version 2. In a container the topmost one usually is the container's own group.
std::vector<Cgroup> cgroups_with(const std::string& controller, const std::string& proc_cgroup,
                                 const std::string& mountinfo);

// The same for this process, now. `root` is where proc is looked for; the folders are without it.
std::vector<Cgroup> own_cgroups_with(const std::string& controller, const std::string& root = "");

// The folder of this process's group of version 2; empty if it has none.
std::string own_cgroup2_folder();

}  // namespace ddp::launcher
