// Which ranks the clients of this machine are that do not say so, as PyTorch's: what the environment of the process at
// the other end has in RANK and WORLD_SIZE.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "store/store_ranks.h"

namespace ddp::store {

// Looks through our user's processes in `proc` for those that hold one of the clients' sockets, known by inode, and have a
// rank; `patience` bounds that, for a machine may have very many. A socket that several hold, as after a fork, is the
// first one's.
std::unordered_map<ConnectionId, StoreRank> find_ranks(std::unordered_map<std::uint64_t, ConnectionId> clients,
                                                       std::chrono::nanoseconds patience,
                                                       const std::string& proc = "/proc");

// The parts of it that are pure. `environment` is a file as the kernel shows it; the name is left empty.
std::optional<StoreRank> rank_in_environment(std::string_view environment);
// "socket:[4711]", as the kernel shows what a descriptor leads to.
std::optional<std::uint64_t> socket_of_link(std::string_view link);

}  // namespace ddp::store
