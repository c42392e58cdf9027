// The limits of this process: those that the workers inherit from us, as far as training runs into them, and how many
// CPUs it may use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddp::launcher {

// In bytes or numbers; kUnlimited where there is no limit.
struct ResourceLimits {
  static constexpr std::uint64_t kUnlimited = ~std::uint64_t{0};

  std::uint64_t descriptors = kUnlimited;    // hard limit of RLIMIT_NOFILE: the soft one is raised
  std::uint64_t open_descriptors = 0;        // inherited, except the three standard ones
  std::uint64_t locked_memory = kUnlimited;  // soft limit of RLIMIT_MEMLOCK
  std::uint64_t stack = 0;                   // soft limit of RLIMIT_STACK
  bool has_rdma = false;                     // InfiniBand or RoCE devices
};

// Reads getrlimit(), /proc/self/fd and /sys/class/infiniband.
ResourceLimits read_resource_limits();

// Pure. Returns an error if the limit leaves fewer than `needed` file descriptors beside those that are open already.
// `purpose` names what needs them: "2 workers".
std::optional<std::string> descriptor_shortage(const ResourceLimits& limits, std::uint64_t needed,
                                               const std::string& purpose);

// Pure. One line for each limit that is too low (or, the stack's, too high) for what this node has, with what to do.
std::vector<std::string> limit_notes(const ResourceLimits& limits, int gpus);

// --- How many CPUs this process may use: those of its affinity mask, cut by what its control groups grant.

// The CPUs of our affinity mask, ascending.
std::vector<int> affinity_cpus();

// CPU time a wall-clock second that our control groups allow, as a number of CPUs: the smallest of our own group's and
// its parents' (cpu.max of version 2, cpu.cfs_quota_us of version 1); nothing where there is no limit. Reads
// proc/self/cgroup and proc/self/mountinfo below `root` (empty except in tests), and the groups where they are mounted.
std::optional<double> cgroup_cpu_limit(const std::string& root = "");

// Of `affinity` CPUs, how many `limit` leaves: rounded up, at least one.
int usable_cpus(int affinity, std::optional<double> limit);

}  // namespace ddp::launcher
