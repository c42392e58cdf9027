// StoreTable holds the keys and values of the store, and the waits of its clients. It turns requests into replies,
// without sockets or a clock.
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
  // The replies are in sending order. The requester's own reply, if the request has one, comes first.
  std::vector<StoreReply> replies;
  // This is set if the requester broke a rule and must be closed.
  std::optional<wire::StoreViolation> violation;
  // This is set if the requester stopped waiting.
  std::optional<StoreWait> given_up;
};

// These invariants hold. A key that has a value has no waiters. A connection has at most one wait. `bytes()` is roughly
// the memory of all keys, values, waits and watches, and never exceeds the limit.
class StoreTable {
 public:
  // `id` distinguishes this table from others. It is not 0, and clients that send HELLO receive it.
  explicit StoreTable(const StoreLimits& limits = {}, std::uint64_t id = 1) : limits_(limits), id_(id) {}

  // Carries out one request. A new request on a waiting connection ends that wait silently. PyTorch 1.13 sends no
  // CANCEL_WAIT after a time-out, and a late answer would corrupt its stream.
  StoreOutcome apply(ConnectionId from, const wire::StoreRequest& request, TimePoint now = {});

  // Sets the rank of a client that does not send HELLO.
  void introduce(ConnectionId connection, StoreRank rank) { ranks_.hello(connection, std::move(rank)); }

  // Deletes the waits and watches of a connection that is closed.
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
  class Turn;  // carries out one request

  StoreLimits limits_;
  std::uint64_t id_;
  std::size_t bytes_ = 0;  // memory of values, queues and watches
  std::unordered_map<std::string, std::string> values_;
  std::unordered_map<std::string, std::deque<std::string>> queues_;  // contains no empty queue
  StoreWaiters waiters_;
  StoreWaiters barriers_;  // waits by barrier key, whose value is the number of clients that have arrived
  std::unordered_map<std::string, std::set<ConnectionId>> watchers_;
  std::unordered_map<ConnectionId, std::set<std::string>> watched_;
  StoreRanks ranks_;
};

}  // namespace ddp::store
