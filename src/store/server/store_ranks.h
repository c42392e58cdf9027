// StoreRanks: which rank a connection belongs to, and which ranks have come to where a key is waited for. Pure.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "store/server/store_waiters.h"

namespace ddp::store {

struct StoreRank {
  int rank = 0;
  int world_size = 0;
  std::string name;  // host and process
};

// A socket whose process is known to be that rank's.
struct RankedSocket {
  std::uint64_t inode = 0;
  StoreRank rank;
};

// Lists of ranks as text: "0, 2-5".
struct WhoWaits {
  std::string waiting;    // for one of the keys, or gave up waiting for one and has not waited since
  std::string elsewhere;  // connected, and not waiting for any of them
  std::string absent;     // of the world's ranks, those that have no connection
};

class StoreRanks {
 public:
  void hello(ConnectionId connection, StoreRank rank) { ranks_[connection] = std::move(rank); }
  void gave_up(ConnectionId connection, std::vector<std::string> keys) { gave_up_[connection] = std::move(keys); }
  void waits_again(ConnectionId connection) { gave_up_.erase(connection); }
  void forget(ConnectionId connection);

  const StoreRank* find(ConnectionId connection) const;
  WhoWaits who_waits(const std::vector<std::string>& keys, const StoreWaiters& waiters,
                     const StoreWaiters& barriers) const;

 private:
  std::unordered_map<ConnectionId, StoreRank> ranks_;
  std::unordered_map<ConnectionId, std::vector<std::string>> gave_up_;
};

}  // namespace ddp::store
