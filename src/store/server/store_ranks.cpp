#include "store/server/store_ranks.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "base/text.h"

namespace ddp::store {

void StoreRanks::forget(ConnectionId connection) {
  ranks_.erase(connection);
  gave_up_.erase(connection);
}

const StoreRank* StoreRanks::find(ConnectionId connection) const {
  const auto found = ranks_.find(connection);
  return found == ranks_.end() ? nullptr : &found->second;
}

WhoWaits StoreRanks::who_waits(const std::vector<std::string>& keys, const StoreWaiters& waiters,
                               const StoreWaiters& barriers) const {
  std::unordered_set<ConnectionId> waiting;
  for (const std::string& key : keys) {
    for (const auto* list : {&waiters, &barriers}) {
      for (const ConnectionId connection : list->waiting_for(key)) waiting.insert(connection);
    }
  }
  const auto wanted = [&](const std::string& key) { return std::ranges::find(keys, key) != keys.end(); };
  const auto waits = [&](ConnectionId connection) {
    const auto given_up = gave_up_.find(connection);
    return waiting.contains(connection) ||
           (given_up != gave_up_.end() && std::ranges::any_of(given_up->second, wanted));
  };
  std::map<int, bool> connected;  // true if one of the rank's connections waits
  int world_size = 0;
  for (const auto& [connection, rank] : ranks_) {
    bool& rank_waits = connected[rank.rank];
    rank_waits = rank_waits || waits(connection);
    world_size = std::max(world_size, rank.world_size);
  }
  std::vector<int> lists[3];
  for (const auto& [rank, rank_waits] : connected) lists[rank_waits ? 0 : 1].push_back(rank);
  for (int rank = 0; rank < world_size; ++rank) {
    if (!connected.contains(rank)) lists[2].push_back(rank);
  }
  return {base::rank_list(lists[0]), base::rank_list(lists[1]), base::rank_list(lists[2])};
}

}  // namespace ddp::store
