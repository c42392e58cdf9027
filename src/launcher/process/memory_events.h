// Did the kernel kill for want of memory? What the memory cgroups count, of version 2 or 1, and the node as a whole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/facts/cgroups.h"

namespace ddp::launcher {

// A kill by the kernel's out-of-memory killer, of something that shares our memory limit (or the node).
struct OomKill {
  std::string where;              // the cgroup's folder; empty: no limit that we see
  std::uint64_t limit_bytes = 0;  // of that cgroup; 0: none known
  std::uint64_t peak_bytes = 0;   // the most it has held; 0: not known

  friend bool operator==(const OomKill&, const OomKill&) = default;
};

class OomWatch {
 public:
  // Counts from now on.
  OomWatch();
  // For tests: these folders, nearest first, and this file for /proc/vmstat.
  OomWatch(std::vector<Cgroup> cgroups, std::string vmstat);

  // Whether a counter has grown since the last call (or the beginning), and where the limit was. Reads a few small
  // files.
  std::optional<OomKill> new_kill();

 private:
  std::uint64_t kills_in(const Cgroup& cgroup) const;
  std::uint64_t kills_of_node() const;

  std::vector<Cgroup> cgroups_;
  std::string vmstat_;
  std::vector<std::uint64_t> seen_;  // by cgroup; the last one is the node's
};

}  // namespace ddp::launcher
