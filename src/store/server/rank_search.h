// This search finds the ranks of clients that do not send their rank, such as PyTorch's, by the sockets that ranks
// hold.
#pragma once

#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "store/server/gatekeeper.h"
#include "store/server/served_client.h"
#include "store/server/store_ranks.h"
#include "store/server/store_table.h"

namespace ddp::store {

using Clients = std::unordered_map<ConnectionId, std::unique_ptr<ServedClient>>;

std::vector<const ServedClient*> all_of(const Clients& clients);

// Adds the ranks that are found to the table. Each client is searched for at most limits::kStoreNamingTries times.
void introduce_ranks(Clients& clients, Gatekeeper& gatekeeper,
                     const std::function<std::vector<RankedSocket>()>& sockets, StoreTable& table);

}  // namespace ddp::store
