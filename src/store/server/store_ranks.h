// StoreRanks maps connections to ranks, and finds which ranks wait for a key. The class does no I/O.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "store/server/store_waiters.h"

namespace ddp::store {

struct StoreRank {
  int rank = 0;
  int world_size = 0;
  std::string name;  // host name and process
};

// Describes a socket whose process is known to be that rank.
struct RankedSocket {
  std::uint64_t inode = 0;
  StoreRank rank;
};

// Holds lists of ranks as text: "0, 2-5".
struct WhoWaits {
  std::string waiting;    // ranks that wait for one of the keys, or stopped and have not waited since
  std::string elsewhere;  // ranks that are connected and wait for none of them
  std::string absent;     // ranks of the world without a connection
};

// Describes the clients that wait for the same key.
struct LongWait {
  std::string key;           // of each wait, the first of the missing keys by name
  std::int64_t clients = 0;  // number of clients
  TimePoint since;           // when the first of them began
  WhoWaits who;
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
