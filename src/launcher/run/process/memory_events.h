// Detects whether the kernel killed a process because memory was short. It reads the counters of the memory cgroups, of
// version 2 or 1, and of the node as a whole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/start/facts/cgroups.h"

namespace ddp::launcher {

// Describes a kill by the kernel. The killed process shares the launcher's memory limit, or the node.
struct OomKill {
  std::string where;              // folder of the cgroup; empty if no limit is visible
  std::uint64_t limit_bytes = 0;  // limit of that cgroup; 0 if none is known
  std::uint64_t peak_bytes = 0;   // the most that it has held; 0 if unknown

  friend bool operator==(const OomKill&, const OomKill&) = default;
};

class OomWatch {
 public:
  // Counts kills from now on.
  OomWatch();
  // Tests pass these folders, the nearest first, and this file instead of /proc/vmstat.
  OomWatch(std::vector<Cgroup> cgroups, std::string vmstat);

  // Returns a kill if a counter has grown since the last call (or the construction), with the place of the limit.
  // Returns std::nullopt if no counter has grown. Reads a few small files.
  std::optional<OomKill> new_kill();

 private:
  std::uint64_t kills_in(const Cgroup& cgroup) const;
  std::uint64_t kills_of_node() const;

  std::vector<Cgroup> cgroups_;
  std::string vmstat_;
  std::vector<std::uint64_t> seen_;  // counts by cgroup; the last one is the node's
};

}  // namespace ddp::launcher
