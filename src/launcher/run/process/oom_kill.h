// OomKill describes a kill by the kernel's out-of-memory killer.
#pragma once

#include <cstdint>
#include <string>

namespace ddp::launcher {

// The killed process shares the launcher's memory limit, or the node.
struct OomKill {
  std::string where;              // folder of the cgroup; empty if no limit is visible
  std::uint64_t limit_bytes = 0;  // limit of that cgroup; 0 if none is known
  std::uint64_t peak_bytes = 0;   // the most that it has held; 0 if unknown

  friend bool operator==(const OomKill&, const OomKill&) = default;
};

}  // namespace ddp::launcher
