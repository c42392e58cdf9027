// Reads the limits that the workers inherit from the launcher and that training may reach. Also determines how many
// CPUs this process may use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddp::launcher {

// The values are bytes or counts. kUnlimited means that there is no limit.
struct ResourceLimits {
  static constexpr std::uint64_t kUnlimited = ~std::uint64_t{0};

  std::uint64_t descriptors = kUnlimited;    // hard limit of RLIMIT_NOFILE; the launcher raises the soft limit
  std::uint64_t open_descriptors = 0;        // inherited, except the three standard ones
  std::uint64_t processes = kUnlimited;      // soft limit of RLIMIT_NPROC, which does not bind root; threads count
  std::uint64_t locked_memory = kUnlimited;  // soft limit of RLIMIT_MEMLOCK
  std::uint64_t stack = 0;                   // soft limit of RLIMIT_STACK
  bool has_rdma = false;                     // InfiniBand or RoCE devices
};

// Reads getrlimit(), /proc/self/fd and /sys/class/infiniband.
ResourceLimits read_resource_limits();

// Returns an error if the limit leaves fewer than `needed` file descriptors beside those that are already open.
// `purpose` names what needs them: "2 workers". This function is pure.
std::optional<std::string> descriptor_shortage(const ResourceLimits& limits, std::uint64_t needed,
                                               const std::string& purpose);

// Returns one line for each limit that is too low for this node's hardware, or too high in the case of the stack. Each
// line says what to do. This function is pure.
std::vector<std::string> limit_notes(const ResourceLimits& limits, int gpus);

// --- The affinity mask and the control groups of this process limit how many CPUs it may use.

// Returns the CPUs of this process's affinity mask, ascending.
std::vector<int> affinity_cpus();

// Returns the CPU time per wall-clock second that the control groups of this process allow, as a number of CPUs. This
// is the smallest limit of its own group and of the parent groups (cpu.max in version 2, cpu.cfs_quota_us in version
// 1). Returns std::nullopt if there is no limit. Reads proc/self/cgroup and proc/self/mountinfo below `root` (empty
// except in tests), and the groups where they are mounted.
std::optional<double> cgroup_cpu_limit(const std::string& root = "");

// Returns how many of `affinity` CPUs `limit` allows, rounded up and at least one.
int usable_cpus(int affinity, std::optional<double> limit);

}  // namespace ddp::launcher
