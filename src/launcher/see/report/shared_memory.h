// Explains failures for which /dev/shm is too small.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/exit_status.h"

namespace ddp::launcher {

struct SharedMemory {
  std::uint64_t total = 0;  // bytes
  std::uint64_t free = 0;   // now; what the failed worker held may be free again
};

// Returns the size of the file system at `path`, or std::nullopt if it cannot be read.
std::optional<SharedMemory> read_shared_memory(const std::string& path = "/dev/shm");

// Returns whether a worker failed in a way that is typical of a full /dev/shm: SIGBUS, or an error that names it.
bool may_lack_shared_memory(const base::ExitStatus& status, const std::vector<std::string>& last_lines);

// Returns a line for the report that contains the size and says what to do.
std::string shared_memory_line(const SharedMemory& memory, const std::string& node);

}  // namespace ddp::launcher
