#include "store/server/store_waiters.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "store/limits.h"

namespace ddp::store {
namespace {

constexpr std::size_t kPairBytes = 112;  // a pair of connection and key, with an entry on either side

std::size_t key_cost(const std::string& key) {
  return key.size() + limits::kStoreEntryBytes;
}

}  // namespace

std::size_t StoreWaiters::cost(const std::set<std::string>& missing) {
  std::size_t bytes = 0;
  for (const std::string& key : missing) bytes += kPairBytes + key_cost(key);
  return bytes;
}

void StoreWaiters::add(ConnectionId connection, const std::set<std::string>& missing, TimePoint now) {
  DDP_CHECK(!missing.empty() && !waits_.contains(connection), connection);
  Entry entry{{}, now, next_turn_++};
  for (const std::string& key : missing) {
    const auto [waiting, is_new] = by_key_.try_emplace(key);
    if (is_new) bytes_ += key_cost(key);
    waiting->second.emplace(entry.turn, connection);
    entry.missing.insert(&waiting->first);
    bytes_ += kPairBytes;
  }
  waits_.emplace(connection, std::move(entry));
}

void StoreWaiters::drop_key(ByKey::iterator key) {
  bytes_ -= key_cost(key->first);
  by_key_.erase(key);
}

StoreWait StoreWaiters::describe(const Entry& entry) {
  StoreWait wait{{}, entry.missing.size(), entry.since};
  wait.keys.resize(std::min(entry.missing.size(), limits::kStoreNamedKeys));
  std::vector<const std::string*> missing(entry.missing.begin(), entry.missing.end());
  const auto last = missing.begin() + static_cast<std::ptrdiff_t>(wait.keys.size());
  std::partial_sort(missing.begin(), last, missing.end(), [](const auto* a, const auto* b) { return *a < *b; });
  std::transform(missing.begin(), last, wait.keys.begin(), [](const std::string* key) { return *key; });
  return wait;
}

std::optional<StoreWait> StoreWaiters::remove(ConnectionId connection) {
  const auto found = waits_.find(connection);
  if (found == waits_.end()) return std::nullopt;
  const Entry entry = std::move(found->second);
  waits_.erase(found);
  StoreWait wait = describe(entry);
  for (const std::string* key : entry.missing) {
    const auto others = by_key_.find(*key);
    others->second.erase(entry.turn);
    bytes_ -= kPairBytes;
    if (others->second.empty()) drop_key(others);
  }
  return wait;
}

bool StoreWaiters::has_come(ConnectionId connection, const std::string& key) {
  const auto found = waits_.find(connection);
  found->second.missing.erase(&key);
  bytes_ -= kPairBytes;
  if (!found->second.missing.empty()) return false;
  waits_.erase(found);
  return true;
}

std::vector<ConnectionId> StoreWaiters::wake_all(const std::string& key) {
  std::vector<ConnectionId> woken;
  const auto waiting = by_key_.find(key);
  if (waiting == by_key_.end()) return woken;
  for (const auto& [turn, connection] : waiting->second) {
    if (has_come(connection, waiting->first)) woken.push_back(connection);
  }
  drop_key(waiting);
  return woken;
}

std::optional<ConnectionId> StoreWaiters::wake_one(const std::string& key) {
  const auto waiting = by_key_.find(key);
  if (waiting == by_key_.end()) return std::nullopt;
  const ConnectionId connection = waiting->second.begin()->second;
  waiting->second.erase(waiting->second.begin());
  const bool is_over = has_come(connection, waiting->first);
  if (waiting->second.empty()) drop_key(waiting);
  if (!is_over) return std::nullopt;
  return connection;
}

std::optional<StoreWait> StoreWaiters::find(ConnectionId connection) const {
  const auto found = waits_.find(connection);
  if (found == waits_.end()) return std::nullopt;
  return describe(found->second);
}

std::vector<ConnectionId> StoreWaiters::waiting_for(const std::string& key) const {
  std::vector<ConnectionId> connections;
  const auto waiting = by_key_.find(key);
  if (waiting == by_key_.end()) return connections;
  for (const auto& [turn, connection] : waiting->second) connections.push_back(connection);
  return connections;
}

}  // namespace ddp::store
