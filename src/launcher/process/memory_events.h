// Did the kernel kill for want of memory? What the memory cgroups count, of version 2 or 1, and the machine as a whole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddp::launcher {

// A kill by the kernel's out-of-memory killer, of something that shares our memory limit (or the machine).
struct OomKill {
  std::string where;              // the cgroup's folder; empty: the machine as a whole
  std::uint64_t limit_bytes = 0;  // of that cgroup; 0: none known
  std::uint64_t peak_bytes = 0;   // the most it has held; 0: not known

  friend bool operator==(const OomKill&, const OomKill&) = default;
};

// A folder with memory counters, ours or one above it.
struct MemoryCgroup {
  std::string folder;
  bool version2 = true;
};

class OomWatch {
 public:
  // Counts from now on.
  OomWatch();
  // For tests: these folders, nearest first, and this file for /proc/vmstat.
  OomWatch(std::vector<MemoryCgroup> cgroups, std::string vmstat);

  // The nearest counter that has grown since the last call (or the beginning). Reads a few small files.
  std::optional<OomKill> new_kill();

 private:
  std::uint64_t kills_in(const MemoryCgroup& cgroup) const;
  std::uint64_t kills_of_machine() const;

  std::vector<MemoryCgroup> cgroups_;
  std::string vmstat_;
  std::vector<std::uint64_t> seen_;  // by cgroup; the last one is the machine's
};

// Pure. The memory cgroups of a process, nearest first, from the texts of its /proc/PID/cgroup and mountinfo.
std::vector<MemoryCgroup> memory_cgroups(const std::string& proc_cgroup, const std::string& mountinfo);

}  // namespace ddp::launcher
