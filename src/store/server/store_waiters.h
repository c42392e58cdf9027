// StoreWaiters: which connections wait for which keys. Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace ddp::store {

using ConnectionId = std::uint64_t;
using TimePoint = std::chrono::steady_clock::time_point;

struct StoreWait {
  std::vector<std::string> keys;  // that have yet to come: the first of them by name, at most limits::kStoreNamedKeys
  std::size_t key_count = 0;      // all of them; more than 0
  TimePoint since;
};

// Invariant: a connection is listed under exactly those keys that its wait misses.
class StoreWaiters {
 public:
  // Begins a wait; the connection must have none. `missing` must not be empty.
  void add(ConnectionId connection, const std::set<std::string>& missing, TimePoint now);

  // Ends the connection's wait, if it has one, and returns it.
  std::optional<StoreWait> remove(ConnectionId connection);

  // The key has come. Returns those that waited for nothing else, in the order in which they began to wait.
  std::vector<ConnectionId> wake_all(const std::string& key);
  // The same for the one that has waited longest; the others go on waiting.
  std::optional<ConnectionId> wake_one(const std::string& key);

  std::optional<StoreWait> find(ConnectionId connection) const;
  std::vector<ConnectionId> waiting_for(const std::string& key) const;
  std::size_t count() const { return waits_.size(); }

  // Memory, roughly: of all waits, and of one that would begin.
  std::size_t bytes() const { return bytes_; }
  static std::size_t cost(const std::set<std::string>& missing);

 private:
  using ByKey = std::unordered_map<std::string, std::map<std::uint64_t, ConnectionId>>;  // by turn

  struct Entry {
    std::unordered_set<const std::string*> missing;  // keys of by_key_
    TimePoint since;
    std::uint64_t turn;
  };

  static StoreWait describe(const Entry& entry);
  // True if nothing is missing any more; the wait is over then.
  bool has_come(ConnectionId connection, const std::string& key);
  void drop_key(ByKey::iterator key);

  std::unordered_map<ConnectionId, Entry> waits_;
  ByKey by_key_;  // nothing in it is empty
  std::uint64_t next_turn_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace ddp::store
