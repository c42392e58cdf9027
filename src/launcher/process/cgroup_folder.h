// Where the cgroups of a process are.
#pragma once

#include <string>
#include <vector>

namespace ddp::launcher {

struct CgroupFolder {
  std::string folder;
  bool version2 = true;
};

// Pure. The folder of a process's cgroup of version 2, from the texts of its /proc/PID/cgroup and /proc/PID/mountinfo;
// empty if it has none.
std::string cgroup2_folder(const std::string& proc_cgroup, const std::string& mountinfo);

// Pure. The cgroups that a controller ("memory", "pids") may limit the process with, from the same texts: its own and
// those above it, nearest first, of version 1 before those of version 2.
std::vector<CgroupFolder> cgroups_with(const std::string& controller, const std::string& proc_cgroup,
                                       const std::string& mountinfo);

// The same for this process, now.
std::string own_cgroup2_folder();
std::vector<CgroupFolder> own_cgroups_with(const std::string& controller);

}  // namespace ddp::launcher
