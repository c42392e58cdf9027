#include "store/server/rank_search.h"

#include <utility>

#include "store/limits.h"

namespace ddp::store {

void introduce_ranks(Clients& clients, Gatekeeper& gatekeeper,
                     const std::function<std::vector<RankedSocket>()>& sockets, StoreTable& table) {
  std::unordered_map<std::uint64_t, ConnectionId> unknown;
  for (const auto& [id, client] : clients) {
    // A search of limited time may have missed it. A stranger is not looked for again and again.
    if (table.ranks().find(id) != nullptr || client->rank_searches++ >= limits::kStoreNamingTries) continue;
    if (const auto socket = gatekeeper.socket_of_peer(client->fd())) unknown.emplace(*socket, id);
  }
  if (unknown.empty()) return;
  for (RankedSocket& socket : sockets()) {
    // A socket that several hold, as after a fork, is the first one's.
    const auto client = unknown.extract(socket.inode);
    if (client) table.introduce(client.mapped(), std::move(socket.rank));
  }
}

}  // namespace ddp::store
