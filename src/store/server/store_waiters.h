// StoreWaiters records which connections wait for which keys. The class does no I/O.
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
  std::vector<std::string> keys;  // missing keys: the first by name, at most limits::kStoreNamedKeys
  std::size_t key_count = 0;      // number of all missing keys; at least 1
  TimePoint since;
};

// Invariant: a connection is listed under exactly those keys that its wait still misses.
class StoreWaiters {
 public:
  // Begins a wait; the connection must have none. `missing` must not be empty.
  void add(ConnectionId connection, const std::set<std::string>& missing, TimePoint now);

  // Ends the connection's wait, if it has one, and returns it.
  std::optional<StoreWait> remove(ConnectionId connection);

  // Handles the arrival of a key. Returns the connections that waited for nothing else, in the order in which they
  // began to wait.
  std::vector<ConnectionId> wake_all(const std::string& key);
  // Wakes only the connection that has waited longest. The others continue to wait.
  std::optional<ConnectionId> wake_one(const std::string& key);

  std::optional<StoreWait> find(ConnectionId connection) const;
  std::vector<ConnectionId> waiting_for(const std::string& key) const;
  std::size_t count() const { return waits_.size(); }

  // These functions estimate the memory of all waits, and of a new wait.
  std::size_t bytes() const { return bytes_; }
  static std::size_t cost(const std::set<std::string>& missing);

 private:
  using ByKey = std::unordered_map<std::string, std::map<std::uint64_t, ConnectionId>>;  // connections by turn

  struct Entry {
    std::unordered_set<const std::string*> missing;  // pointers to keys of by_key_
    TimePoint since;
    std::uint64_t turn;
  };

  static StoreWait describe(const Entry& entry);
  // Returns true if no key is missing any more, which ends the wait.
  bool has_come(ConnectionId connection, const std::string& key);
  void drop_key(ByKey::iterator key);

  std::unordered_map<ConnectionId, Entry> waits_;
  ByKey by_key_;  // contains no empty entry
  std::uint64_t next_turn_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace ddp::store
