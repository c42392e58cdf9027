// Returns how much memory this node has left for processes of this job.
#pragma once

#include <cstdint>
#include <string>

namespace ddp::launcher {

// The least of what the kernel calls available and of what the memory limits of this process's cgroups leave. The
// contents of files that the kernel keeps do not count as used. Returns 0 if the kernel does not say. `root` is where /proc and /sys are; tests have their own.
std::uint64_t memory_room(const std::string& root = "");

}  // namespace ddp::launcher
