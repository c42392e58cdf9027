// The sockets that a process holds, by inode.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace ddp::launcher {

struct HeldSocket {
  std::uint64_t inode = 0;
  pid_t holder = 0;

  friend bool operator==(const HeldSocket&, const HeldSocket&) = default;
};

// Of these processes, in their order; those that were found until then. Reads nothing of /proc that waits for a
// process's memory, as its environment or command line does: one that hangs in a driver would make us hang.
std::vector<HeldSocket> sockets_of(std::span<const pid_t> processes, std::chrono::steady_clock::time_point until);

// Of `root` and its descendants, `root` first.
std::vector<HeldSocket> sockets_of(pid_t root, std::chrono::steady_clock::time_point until);

// "socket:[4711]", as the kernel shows what a descriptor leads to; nothing for anything else.
std::optional<std::uint64_t> socket_of_link(std::string_view link);

}  // namespace ddp::launcher
