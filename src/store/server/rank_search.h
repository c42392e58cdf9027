// Which of a server's clients are ranks that have not said so, as PyTorch's: by the sockets that ranks hold.
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

// Tells the table of those that are found. Each client is looked for once.
void introduce_ranks(Clients& clients, Gatekeeper& gatekeeper,
                     const std::function<std::vector<RankedSocket>()>& sockets, StoreTable& table);

}  // namespace ddp::store
