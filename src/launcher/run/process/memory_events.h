// Detects whether the kernel killed a process because memory was short. It reads the counters of the memory cgroups, of
// version 2 or 1, and of the node as a whole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/run/process/oom_kill.h"
#include "launcher/start/facts/cgroups.h"

namespace ddp::launcher {

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
