#include "store/server/rank_search.h"

#include <utility>

#include "store/limits.h"

namespace ddp::store {

std::vector<const ServedClient*> all_of(const Clients& clients) {
  std::vector<const ServedClient*> all;
  for (const auto& [id, client] : clients) all.push_back(client.get());
  return all;
}

void introduce_ranks(Clients& clients, Gatekeeper& gatekeeper,
                     const std::function<std::vector<RankedSocket>()>& sockets, StoreTable& table) {
  std::unordered_map<std::uint64_t, ConnectionId> unknown;
  for (const auto& [id, client] : clients) {
    // A search has limited time and may have missed the client. An unknown client is not searched for without end.
    if (table.ranks().find(id) != nullptr || client->rank_searches++ >= limits::kStoreNamingTries) continue;
    if (const auto socket = gatekeeper.socket_of_peer(client->fd())) unknown.emplace(*socket, id);
  }
  if (unknown.empty()) return;
  for (RankedSocket& socket : sockets()) {
    // If several processes hold a socket, as after a fork, it belongs to the first.
    const auto client = unknown.extract(socket.inode);
    if (client) table.introduce(client.mapped(), std::move(socket.rank));
  }
}

}  // namespace ddp::store
