// Finds the control groups of a process, and the folders that hold their files.
#pragma once

#include <string>
#include <vector>

namespace ddp::launcher {

struct Cgroup {
  std::string folder;
  bool version2 = true;

  bool operator==(const Cgroup&) const = default;
};

// Returns the groups in which `controller` ("memory", "pids", "cpu") may limit a process, as far as they are mounted.
// The other arguments are the texts of the process's /proc/PID/cgroup and /proc/PID/mountinfo. Groups of version 1 come
// before groups of version 2; within a version, the nearest group comes first. In a container, the topmost group
// usually is the container's own group. This function is pure.
std::vector<Cgroup> cgroups_with(const std::string& controller, const std::string& proc_cgroup,
                                 const std::string& mountinfo);

// Returns the same for the calling process. Files of /proc are read below `root`; the returned folders do not include
// `root`.
std::vector<Cgroup> own_cgroups_with(const std::string& controller, const std::string& root = "");

// Returns the folder of this process's version 2 group, or an empty string if it has none.
std::string own_cgroup2_folder();

}  // namespace ddp::launcher
