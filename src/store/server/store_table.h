// StoreTable: what the store knows and who waits for what. Pure: requests in, replies out; no sockets, no clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "store/server/store_limits.h"
#include "store/server/store_ranks.h"
#include "store/server/store_waiters.h"
#include "wire/store_message.h"

namespace ddp::store {

struct StoreReply {
  ConnectionId to;
  std::string bytes;
};

struct StoreOutcome {
  // In sending order; the requester's own reply, if the request has one, comes first.
  std::vector<StoreReply> replies;
  // The requester broke a rule: close it.
  std::optional<wire::StoreViolation> violation;
  // The requester gave up this wait.
  std::optional<StoreWait> given_up;
};

// Invariants: a key that has a value has no waiters; a connection waits at most once; `bytes()` is about the memory of
// all keys, values, waits and watches and never exceeds the limit.
class StoreTable {
 public:
  // `id` tells this table from others: not 0, and told to clients that say HELLO.
  explicit StoreTable(const StoreLimits& limits = {}, std::uint64_t id = 1) : limits_(limits), id_(id) {}

  // Carries out one request. A new request on a connection that waits ends that wait silently: PyTorch 1.13 sends no
  // CANCEL_WAIT after a time-out, and a late answer would corrupt its stream.
  StoreOutcome apply(ConnectionId from, const wire::StoreRequest& request, TimePoint now = {});

  // Somebody else knows the rank of a client that does not say HELLO.
  void introduce(ConnectionId connection, StoreRank rank) { ranks_.hello(connection, std::move(rank)); }

  // The connection is gone: what it waited for and watched is forgotten.
  void forget(ConnectionId connection);

  const std::unordered_map<std::string, std::string>& values() const { return values_; }
  const std::unordered_map<std::string, std::deque<std::string>>& queues() const { return queues_; }
  const StoreRanks& ranks() const { return ranks_; }
  std::optional<StoreWait> wait_of(ConnectionId connection) const;
  WhoWaits who_waits(const std::vector<std::string>& keys) const { return ranks_.who_waits(keys, waiters_, barriers_); }

  std::size_t key_count() const { return values_.size(); }
  std::size_t bytes() const { return bytes_ + waiters_.bytes() + barriers_.bytes(); }
  std::size_t waiting_connections() const { return waiters_.count() + barriers_.count(); }

 private:
  class Turn;  // one request being carried out

  StoreLimits limits_;
  std::uint64_t id_;
  std::size_t bytes_ = 0;  // of values, queues and watches
  std::unordered_map<std::string, std::string> values_;
  std::unordered_map<std::string, std::deque<std::string>> queues_;  // none of them is empty
  StoreWaiters waiters_;
  StoreWaiters barriers_;  // under the barrier's key, which has a value meanwhile: the number of those that have come
  std::unordered_map<std::string, std::set<ConnectionId>> watchers_;
  std::unordered_map<ConnectionId, std::set<std::string>> watched_;
  StoreRanks ranks_;
};

}  // namespace ddp::store
