#include "store/server/store_table.h"

#include <cerrno>
#include <cstdlib>

#include "store/limits.h"

namespace ddp::store {

using wire::StoreOp;
using wire::StoreRequest;

namespace {

std::string one_byte(std::uint8_t value) {
  std::string out;
  wire::put_u8(out, value);
  return out;
}

std::string one_number(std::int64_t value) {
  std::string out;
  wire::put_i64(out, value);
  return out;
}

// Parses like std::stoll, which PyTorch's server uses: it skips spaces before the number and ignores anything after it.
std::optional<std::int64_t> leading_number(const std::string& text) {
  errno = 0;
  char* end = nullptr;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  if (end == text.c_str() || errno == ERANGE) return std::nullopt;
  return value;
}

std::size_t cost(std::string_view key, std::size_t value_bytes) {
  return key.size() + value_bytes + limits::kStoreEntryBytes;
}

}  // namespace

class StoreTable::Turn {
 public:
  Turn(StoreTable& table, ConnectionId from, const StoreRequest& request, TimePoint now)
      : table_(table), from_(from), request_(request), now_(now) {}

  StoreOutcome run() {
    std::optional<StoreWait> given_up = table_.waiters_.remove(from_);
    if (!given_up) given_up = table_.barriers_.remove(from_);
    if (given_up) table_.ranks_.gave_up(from_, given_up->keys);
    outcome_.given_up = std::move(given_up);
    carry_out();
    return std::move(outcome_);
  }

 private:
  void carry_out() {
    switch (request_.op) {
      case StoreOp::validate:
        return;
      case StoreOp::ping:
        return ping();
      case StoreOp::set:
      case StoreOp::multi_set:
        return set();
      case StoreOp::compare_set:
        return compare_set();
      case StoreOp::get:
      case StoreOp::multi_get:
        return get();
      case StoreOp::add:
        return add();
      case StoreOp::check:
        return reply(one_byte(check() ? wire::kStoreReady : wire::kStoreNotReady));
      case StoreOp::wait:
        return wait();
      case StoreOp::cancel_wait:
        // The server always answers this, even if the awaited key arrived at the same moment and the wait was already
        // answered.
        return reply(one_byte(wire::kStoreWaitCanceled));
      case StoreOp::key_count:
        return reply(one_number(static_cast<std::int64_t>(table_.values_.size())));
      case StoreOp::delete_key:
        return delete_key();
      case StoreOp::append:
        return append();
      case StoreOp::watch_key:
        return watch();
      case StoreOp::queue_push:
        return push();
      case StoreOp::queue_pop:
        return pop();
      case StoreOp::queue_len:
        return reply(one_number(static_cast<std::int64_t>(queue_length(key()))));
      case StoreOp::list_keys:
        return list_keys();
      case StoreOp::barrier:
        return barrier();
      case StoreOp::hello:
        return hello();
      case StoreOp::explain:
        return explain();
      case StoreOp::inspect:
      case StoreOp::auth_hello:
      case StoreOp::auth_proof:
      case StoreOp::control:
        return violate(std::string(wire::to_string(request_.op)) +
                       " is not allowed here");  // the server handles these, not the table
    }
  }

  const std::string& key() const { return request_.keys[0]; }
  const std::string& value() const { return request_.values[0]; }

  void reply(std::string bytes) { outcome_.replies.push_back({from_, std::move(bytes)}); }

  // Answers a write before the clients that it woke. If the write was refused it does not answer, because an answer
  // would mean that the write happened.
  void answer_first(std::string bytes) {
    if (!outcome_.violation) outcome_.replies.insert(outcome_.replies.begin(), {from_, std::move(bytes)});
  }

  void violate(std::string reason) { outcome_.violation = wire::StoreViolation{std::move(reason)}; }

  // Returns whether the table may hold so much more. If not, the requester has broken a rule.
  bool has_room(std::size_t fewer_bytes, std::size_t more_bytes, std::size_t more_keys) {
    if (table_.bytes_ - fewer_bytes + more_bytes > table_.limits_.table_bytes) {
      violate("the store is full (table-bytes " + std::to_string(table_.limits_.table_bytes) + ")");
    } else if (table_.values_.size() + table_.queues_.size() + more_keys > table_.limits_.keys) {
      violate("the store has too many keys (keys " + std::to_string(table_.limits_.keys) + ")");
    }
    return !outcome_.violation;
  }

  void stop_waiting(ConnectionId connection) {
    outcome_.replies.push_back({connection, one_byte(wire::kStoreStopWaiting)});
  }

  void tell_watchers(std::uint8_t kind, const std::string& key, std::string_view before, std::string_view after) {
    const auto watchers = table_.watchers_.find(key);
    if (watchers == table_.watchers_.end()) return;
    std::string change = one_byte(kind);
    for (const std::string_view part : {std::string_view(key), before, after}) wire::put_bytes(change, part);
    for (const ConnectionId watcher : watchers->second) outcome_.replies.push_back({watcher, change});
  }

  void put(const std::string& key, std::string value) {
    const auto entry = table_.values_.find(key);
    const bool is_new = entry == table_.values_.end();
    const std::size_t before = is_new ? 0 : cost(key, entry->second.size());
    if (!has_room(before, cost(key, value.size()), is_new ? 1 : 0)) return;
    table_.bytes_ += cost(key, value.size()) - before;
    if (!table_.watchers_.empty()) {
      const std::string_view old = is_new ? std::string_view() : std::string_view(entry->second);
      tell_watchers(is_new ? wire::kStoreKeyCreated : wire::kStoreKeyUpdated, key, old, value);
    }
    if (!is_new) {
      entry->second = std::move(value);
      return;
    }
    table_.values_.emplace(key, std::move(value));
    for (const ConnectionId woken : table_.waiters_.wake_all(key)) stop_waiting(woken);
  }

  bool exists(const std::string& key) const { return table_.values_.contains(key) || table_.queues_.contains(key); }

  void ping() {
    std::string echo;
    wire::put_u32(echo, request_.number);
    reply(std::move(echo));
  }

  void set() {
    for (std::size_t i = 0; i < request_.keys.size() && !outcome_.violation; ++i) {
      put(request_.keys[i], request_.values[i]);
    }
  }

  void compare_set() {
    const std::string& expected = request_.values[0];
    const std::string& desired = request_.values[1];
    const auto entry = table_.values_.find(key());
    const bool absent = entry == table_.values_.end();
    const bool replaces = absent ? expected.empty() : entry->second == expected;
    // If an absent key was expected to have a value, PyTorch's servers answer with the expected value.
    const std::string& standing = replaces ? desired : absent ? expected : entry->second;
    std::string answer;
    wire::put_bytes(answer, standing);
    if (replaces) put(key(), desired);
    answer_first(std::move(answer));
  }

  // Limits the size of a reply, because a short request can ask for a reply of any size.
  bool fits(const std::string& answer, std::size_t more) {
    if (answer.size() + more <= table_.limits_.unsent_bytes) return true;
    violate("a request whose reply has more than " + std::to_string(table_.limits_.unsent_bytes) + " bytes");
    return false;
  }

  void get() {
    std::string answer;
    for (const std::string& wanted : request_.keys) {
      const auto entry = table_.values_.find(wanted);
      const std::string_view found = entry == table_.values_.end() ? std::string_view() : entry->second;
      if (!fits(answer, found.size())) return;
      wire::put_bytes(answer, found);
    }
    reply(std::move(answer));
  }

  void list_keys() {
    std::string answer = one_number(static_cast<std::int64_t>(table_.values_.size()));
    for (const auto& [name, ignored] : table_.values_) {
      if (!fits(answer, name.size())) return;
      wire::put_bytes(answer, name);
    }
    reply(std::move(answer));
  }

  // Adds to the number under the key. Returns std::nullopt if that breaks a rule.
  std::optional<std::int64_t> add_to_key(std::int64_t delta) {
    std::int64_t number = 0;
    if (const auto entry = table_.values_.find(key()); entry != table_.values_.end()) {
      const auto before = leading_number(entry->second);
      if (!before) {
        violate(std::string(wire::to_string(request_.op)) + " on a key whose value is not a number");
        return std::nullopt;
      }
      number = *before;
    }
    if (__builtin_add_overflow(number, delta, &number)) {
      violate(std::string(wire::to_string(request_.op)) + " beyond the range of 64 bits");
      return std::nullopt;
    }
    put(key(), std::to_string(number));
    if (outcome_.violation) return std::nullopt;
    return number;
  }

  void add() {
    if (const auto number = add_to_key(request_.delta)) answer_first(one_number(*number));
  }

  bool check() const {
    if (request_.keys.size() == 1 && key() == wire::kStoreExtensionsKey) return true;
    for (const std::string& wanted : request_.keys) {
      if (!exists(wanted)) return false;
    }
    return true;
  }

  // Makes the requester wait, if the limit allows it.
  void hold(StoreWaiters& waiters, const std::set<std::string>& missing) {
    const std::size_t bytes = table_.waiters_.bytes() + table_.barriers_.bytes();
    if (bytes + StoreWaiters::cost(missing) > table_.limits_.waiting_bytes) {
      return violate("the store's clients wait for too many keys (waiting-bytes " +
                     std::to_string(table_.limits_.waiting_bytes) + ")");
    }
    waiters.add(from_, missing, now_);
  }

  void wait() {
    table_.ranks_.waits_again(from_);
    std::set<std::string> missing;
    for (const std::string& wanted : request_.keys) {
      if (!exists(wanted)) missing.insert(wanted);
    }
    if (missing.empty()) return stop_waiting(from_);
    hold(table_.waiters_, missing);
  }

  void barrier() {
    table_.ranks_.waits_again(from_);
    const auto arrived = add_to_key(1);
    if (!arrived) return;
    if (*arrived < request_.delta) return hold(table_.barriers_, {key()});
    for (const ConnectionId woken : table_.barriers_.wake_all(key())) stop_waiting(woken);
    answer_first(one_byte(wire::kStoreStopWaiting));
  }

  void append() {
    const auto entry = table_.values_.find(key());
    std::string joined = entry == table_.values_.end() ? std::string() : entry->second;
    if (joined.size() + value().size() > table_.limits_.value_bytes) {
      return violate("APPEND to a value of more than " + std::to_string(table_.limits_.value_bytes) + " bytes");
    }
    put(key(), std::move(joined += value()));
  }

  void delete_key() {
    const auto entry = table_.values_.find(key());
    const bool existed = entry != table_.values_.end();
    if (existed) {
      tell_watchers(wire::kStoreKeyDeleted, key(), entry->second, "");
      table_.bytes_ -= cost(key(), entry->second.size());
      table_.values_.erase(entry);
    }
    answer_first(one_number(existed ? 1 : 0));
  }

  void watch() {
    if (!table_.watched_[from_].contains(key())) {
      const std::size_t bytes = 2 * cost(key(), 0);
      if (!has_room(0, bytes, 0)) return;
      table_.bytes_ += bytes;
      table_.watched_[from_].insert(key());
      table_.watchers_[key()].insert(from_);
    }
    reply(one_byte(wire::kStoreWatching));
  }

  std::size_t queue_length(const std::string& key) const {
    const auto queue = table_.queues_.find(key);
    return queue == table_.queues_.end() ? 0 : queue->second.size();
  }

  void push() {
    const std::size_t bytes = cost(key(), value().size());
    if (!has_room(0, bytes, queue_length(key()) == 0 ? 1 : 0)) return;
    table_.bytes_ += bytes;
    table_.queues_[key()].push_back(value());
    if (const auto woken = table_.waiters_.wake_one(key())) stop_waiting(*woken);
  }

  void pop() {
    std::string answer = one_number(static_cast<std::int64_t>(queue_length(key())));
    if (const auto queue = table_.queues_.find(key()); queue != table_.queues_.end()) {
      wire::put_bytes(answer, queue->second.front());
      table_.bytes_ -= cost(key(), queue->second.front().size());
      queue->second.pop_front();
      if (queue->second.empty()) table_.queues_.erase(queue);
    }
    reply(std::move(answer));
  }

  void hello() {
    if (request_.number > limits::kStoreWorldSize || request_.delta < 0 || request_.delta >= request_.number) {
      return violate("HELLO with rank " + std::to_string(request_.delta) + " of " + std::to_string(request_.number));
    }
    if (value().size() > limits::kStoreNameBytes) return violate("HELLO with too long a name");
    table_.ranks_.hello(from_, {static_cast<int>(request_.delta), static_cast<int>(request_.number), value()});
    reply(one_number(static_cast<std::int64_t>(table_.id_)));
  }

  void explain() {
    const WhoWaits who = table_.who_waits(request_.keys);
    std::string answer;
    for (const std::string& list : {who.waiting, who.elsewhere, who.absent}) wire::put_bytes(answer, list);
    reply(std::move(answer));
  }

  StoreTable& table_;
  const ConnectionId from_;
  const StoreRequest& request_;
  const TimePoint now_;
  StoreOutcome outcome_;
};

StoreOutcome StoreTable::apply(ConnectionId from, const StoreRequest& request, TimePoint now) {
  return Turn(*this, from, request, now).run();
}

void StoreTable::forget(ConnectionId connection) {
  waiters_.remove(connection);
  barriers_.remove(connection);
  ranks_.forget(connection);
  const auto watched = watched_.find(connection);
  if (watched == watched_.end()) return;
  for (const std::string& key : watched->second) {
    const auto watchers = watchers_.find(key);
    watchers->second.erase(connection);
    if (watchers->second.empty()) watchers_.erase(watchers);
    bytes_ -= 2 * cost(key, 0);
  }
  watched_.erase(watched);
}

std::optional<StoreWait> StoreTable::wait_of(ConnectionId connection) const {
  auto wait = waiters_.find(connection);
  return wait ? wait : barriers_.find(connection);
}

}  // namespace ddp::store
