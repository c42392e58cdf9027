#include "launcher/process/process_sockets.h"

#include <unistd.h>

#include <array>
#include <filesystem>
#include <string>

#include "base/text.h"
#include "launcher/process/process_tree.h"

namespace ddp::launcher {

std::optional<std::uint64_t> socket_of_link(std::string_view link) {
  constexpr std::string_view kBefore = "socket:[";
  if (!link.starts_with(kBefore) || !link.ends_with(']')) return std::nullopt;
  link.remove_prefix(kBefore.size());
  link.remove_suffix(1);
  const auto inode = base::parse_integer(link, 1, INT64_MAX);
  return inode ? std::optional(static_cast<std::uint64_t>(*inode)) : std::nullopt;
}

std::vector<HeldSocket> sockets_of(pid_t root, std::chrono::steady_clock::time_point until) {
  std::vector<pid_t> processes = descendants(root, {});
  processes.insert(processes.begin(), root);
  return sockets_of(processes, until);
}

std::vector<HeldSocket> sockets_of(std::span<const pid_t> processes, std::chrono::steady_clock::time_point until) {
  std::vector<HeldSocket> sockets;
  std::error_code ignored;
  for (const pid_t pid : processes) {
    if (std::chrono::steady_clock::now() >= until) break;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd", ignored)) {
      std::array<char, 64> link{};
      const ssize_t size = ::readlink(entry.path().c_str(), link.data(), link.size());
      const auto inode = socket_of_link({link.data(), size > 0 ? static_cast<std::size_t>(size) : 0});
      if (inode) sockets.push_back({*inode, pid});
    }
  }
  return sockets;
}

}  // namespace ddp::launcher
