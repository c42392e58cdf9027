// How many CPUs this process may use: those of its affinity mask, cut by what its control groups grant.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ddp::launcher {

// The CPUs of our affinity mask, ascending.
std::vector<int> affinity_cpus();

// CPU time a wall-clock second that our control groups allow, as a number of CPUs: the smallest of our own group's and
// its parents' (cpu.max of version 2, cpu.cfs_quota_us of version 1); nothing where there is no limit. Reads
// proc/self/cgroup and proc/self/mountinfo below `root` (empty but for tests), and the groups where they are mounted.
std::optional<double> cgroup_cpu_limit(const std::string& root = "");

// Of `affinity` CPUs, how many `limit` leaves: rounded up, at least one.
int usable_cpus(int affinity, std::optional<double> limit);

}  // namespace ddp::launcher
