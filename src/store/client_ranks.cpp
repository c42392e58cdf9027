#include "store/client_ranks.h"

#include <unistd.h>

#include <array>
#include <climits>
#include <filesystem>

#include "base/file.h"
#include "base/host_name.h"
#include "base/limits.h"
#include "base/text.h"

namespace ddp::store {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

}  // namespace

std::optional<StoreRank> rank_in_environment(std::string_view environment) {
  std::optional<std::int64_t> rank;
  std::optional<std::int64_t> world_size;
  constexpr auto kMost = static_cast<std::int64_t>(limits::kStoreWorldSize);
  for (const std::string& variable : base::split(environment, '\0')) {
    if (variable.starts_with("RANK=")) rank = base::parse_integer(std::string_view(variable).substr(5), 0, kMost);
    if (variable.starts_with("WORLD_SIZE=")) {
      world_size = base::parse_integer(std::string_view(variable).substr(11), 1, kMost);
    }
  }
  if (!rank || !world_size || *rank >= *world_size) return std::nullopt;
  return StoreRank{static_cast<int>(*rank), static_cast<int>(*world_size), ""};
}

std::optional<std::uint64_t> socket_of_link(std::string_view link) {
  constexpr std::string_view kBefore = "socket:[";
  if (!link.starts_with(kBefore) || !link.ends_with(']')) return std::nullopt;
  link.remove_prefix(kBefore.size());
  link.remove_suffix(1);
  const auto inode = base::parse_integer(link, 1, INT64_MAX);
  return inode ? std::optional(static_cast<std::uint64_t>(*inode)) : std::nullopt;
}

std::unordered_map<ConnectionId, StoreRank> find_ranks(std::unordered_map<std::uint64_t, ConnectionId> clients,
                                                       std::chrono::nanoseconds patience, const std::string& proc) {
  const auto deadline = Clock::now() + patience;
  std::unordered_map<ConnectionId, StoreRank> ranks;
  std::error_code ignored;
  for (const auto& process : fs::directory_iterator(proc, ignored)) {
    if (clients.empty() || Clock::now() >= deadline) break;
    const std::string pid = process.path().filename();
    if (!base::parse_integer(pid, 1, INT_MAX)) continue;
    // Only ours can be looked into, and few of them have a rank.
    const auto rank = rank_in_environment(base::read_file(process.path() / "environ"));
    if (!rank) continue;
    for (const auto& descriptor : fs::directory_iterator(process.path() / "fd", ignored)) {
      std::array<char, 64> link{};
      const ssize_t size = ::readlink(descriptor.path().c_str(), link.data(), link.size());
      const auto socket = socket_of_link({link.data(), size > 0 ? static_cast<std::size_t>(size) : 0});
      if (!socket) continue;
      const auto client = clients.extract(*socket);
      if (client) ranks.emplace(client.mapped(), StoreRank{rank->rank, rank->world_size, base::host_name() + ":" + pid});
    }
  }
  return ranks;
}

}  // namespace ddp::store
