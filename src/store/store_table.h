// StoreTable: what the store knows and who waits for what. Pure: requests in, replies out; no sockets, no clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/limits.h"
#include "wire/store_message.h"

namespace ddp::store {

using ConnectionId = std::uint64_t;

struct StoreReply {
  ConnectionId to;
  std::string bytes;
};

struct StoreOutcome {
  // In sending order; the requester's own reply, if the request has one, comes first.
  std::vector<StoreReply> replies;
  // The requester broke a rule: close it.
  std::optional<wire::StoreViolation> violation;
};

// Invariants: a key that exists has no waiters; a connection waits at most once; `bytes()` is the size of all keys and
// values and never exceeds the limit.
class StoreTable {
 public:
  explicit StoreTable(std::size_t byte_limit = limits::kStoreTableBytes) : byte_limit_(byte_limit) {}

  // Carries out one request. A new request on a connection that waits ends that wait silently: PyTorch 1.13 sends no
  // CANCEL_WAIT after a time-out, and a late answer would corrupt its stream.
  StoreOutcome apply(ConnectionId from, const wire::StoreRequest& request);

  // The connection is gone: its wait, if any, is forgotten.
  void forget(ConnectionId connection);

  std::size_t key_count() const { return values_.size(); }
  std::size_t bytes() const { return bytes_; }
  std::size_t waiting_connections() const { return missing_.size(); }

 private:
  void put(const std::string& key, std::string value, StoreOutcome& outcome);
  void wake_waiters(const std::string& key, StoreOutcome& outcome);
  bool all_exist(const std::vector<std::string>& keys) const;

  void set(ConnectionId from, const wire::StoreRequest& request, StoreOutcome& outcome);
  void compare_set(ConnectionId from, const wire::StoreRequest& request, StoreOutcome& outcome);
  void get(ConnectionId from, const wire::StoreRequest& request, StoreOutcome& outcome);
  void add(ConnectionId from, const wire::StoreRequest& request, StoreOutcome& outcome);
  void wait(ConnectionId from, const wire::StoreRequest& request, StoreOutcome& outcome);
  void append(ConnectionId from, const wire::StoreRequest& request, StoreOutcome& outcome);
  void delete_key(ConnectionId from, const wire::StoreRequest& request, StoreOutcome& outcome);

  std::size_t byte_limit_;
  std::size_t bytes_ = 0;
  std::unordered_map<std::string, std::string> values_;
  std::unordered_map<std::string, std::unordered_set<ConnectionId>> waiters_;  // by missing key
  std::unordered_map<ConnectionId, std::unordered_set<std::string>> missing_;  // by waiting connection
};

}  // namespace ddp::store
