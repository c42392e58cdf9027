#include "store/store_table.h"

#include <limits>

#include "base/text.h"

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

// The answer to a write, before those that it woke; none if it was refused, for it would say that the write happened.
void answer_first(ConnectionId from, std::string bytes, StoreOutcome& outcome) {
  if (!outcome.violation) outcome.replies.insert(outcome.replies.begin(), {from, std::move(bytes)});
}

}  // namespace

StoreOutcome StoreTable::apply(ConnectionId from, const StoreRequest& request) {
  StoreOutcome outcome;
  const auto reply = [&](std::string bytes) { outcome.replies.push_back({from, std::move(bytes)}); };
  forget(from);
  switch (request.op) {
    case StoreOp::validate:
      break;
    case StoreOp::ping: {
      std::string echo;
      wire::put_u32(echo, request.number);
      reply(std::move(echo));
      break;
    }
    case StoreOp::set:
    case StoreOp::multi_set:
      set(from, request, outcome);
      break;
    case StoreOp::compare_set:
      compare_set(from, request, outcome);
      break;
    case StoreOp::get:
    case StoreOp::multi_get:
      get(from, request, outcome);
      break;
    case StoreOp::add:
      add(from, request, outcome);
      break;
    case StoreOp::check:
      reply(one_byte(all_exist(request.keys) ? wire::kStoreReady : wire::kStoreNotReady));
      break;
    case StoreOp::wait:
      wait(from, request, outcome);
      break;
    case StoreOp::cancel_wait:
      // Always answered, even if the awaited key came in the same moment and the wait was answered before.
      reply(one_byte(wire::kStoreWaitCanceled));
      break;
    case StoreOp::key_count:
      reply(one_number(static_cast<std::int64_t>(values_.size())));
      break;
    case StoreOp::delete_key:
      delete_key(from, request, outcome);
      break;
    case StoreOp::append:
      append(from, request, outcome);
      break;
    default:
      outcome.violation = wire::StoreViolation{std::string(wire::to_string(request.op)) + " is not served yet"};
  }
  return outcome;
}

void StoreTable::forget(ConnectionId connection) {
  const auto waiting = missing_.find(connection);
  if (waiting == missing_.end()) return;
  for (const std::string& key : waiting->second) {
    const auto entry = waiters_.find(key);
    entry->second.erase(connection);
    if (entry->second.empty()) waiters_.erase(entry);
  }
  missing_.erase(waiting);
}

void StoreTable::put(const std::string& key, std::string value, StoreOutcome& outcome) {
  const auto entry = values_.find(key);
  const bool is_new = entry == values_.end();
  const std::size_t before = is_new ? 0 : key.size() + entry->second.size();
  const std::size_t after = bytes_ - before + key.size() + value.size();
  if (after > byte_limit_) {
    outcome.violation = wire::StoreViolation{"the store is full (" + std::to_string(byte_limit_) + " bytes)"};
    return;
  }
  bytes_ = after;
  if (!is_new) {
    entry->second = std::move(value);
    return;
  }
  values_.emplace(key, std::move(value));
  wake_waiters(key, outcome);
}

void StoreTable::wake_waiters(const std::string& key, StoreOutcome& outcome) {
  const auto entry = waiters_.find(key);
  if (entry == waiters_.end()) return;
  for (const ConnectionId connection : entry->second) {
    const auto waiting = missing_.find(connection);
    waiting->second.erase(key);
    if (!waiting->second.empty()) continue;
    missing_.erase(waiting);
    outcome.replies.push_back({connection, one_byte(wire::kStoreStopWaiting)});
  }
  waiters_.erase(entry);
}

bool StoreTable::all_exist(const std::vector<std::string>& keys) const {
  for (const std::string& key : keys) {
    if (!values_.contains(key)) return false;
  }
  return true;
}

void StoreTable::set(ConnectionId, const StoreRequest& request, StoreOutcome& outcome) {
  for (std::size_t i = 0; i < request.keys.size() && !outcome.violation; ++i) {
    put(request.keys[i], request.values[i], outcome);
  }
}

void StoreTable::compare_set(ConnectionId from, const StoreRequest& request, StoreOutcome& outcome) {
  const std::string& key = request.keys[0];
  const std::string& expected = request.values[0];
  const std::string& desired = request.values[1];
  const auto entry = values_.find(key);
  const bool replaces = entry == values_.end() ? expected.empty() : entry->second == expected;
  // An absent key that was expected to hold something: PyTorch's servers answer with what was expected.
  const std::string& standing = replaces ? desired : entry == values_.end() ? expected : entry->second;
  std::string reply;
  wire::put_bytes(reply, standing);
  if (replaces) put(key, desired, outcome);
  answer_first(from, std::move(reply), outcome);
}

void StoreTable::get(ConnectionId from, const StoreRequest& request, StoreOutcome& outcome) {
  std::string reply;
  for (const std::string& key : request.keys) {
    const auto entry = values_.find(key);
    // A request of a few megabytes can name one large value 131 072 times.
    if (entry != values_.end() && reply.size() + entry->second.size() > limits::kStoreUnsentBytes) {
      outcome.violation = wire::StoreViolation{"a request whose reply has more than " +
                                               std::to_string(limits::kStoreUnsentBytes) + " bytes"};
      return;
    }
    wire::put_bytes(reply, entry == values_.end() ? std::string_view() : std::string_view(entry->second));
  }
  outcome.replies.push_back({from, std::move(reply)});
}

void StoreTable::add(ConnectionId from, const StoreRequest& request, StoreOutcome& outcome) {
  const std::string& key = request.keys[0];
  using Limits = std::numeric_limits<std::int64_t>;
  std::int64_t value = 0;
  if (const auto entry = values_.find(key); entry != values_.end()) {
    const auto number = base::parse_integer(entry->second, Limits::min(), Limits::max());
    if (!number) {
      outcome.violation = wire::StoreViolation{"ADD on a key whose value is not a number"};
      return;
    }
    value = *number;
  }
  if (__builtin_add_overflow(value, request.delta, &value)) {
    outcome.violation = wire::StoreViolation{"ADD beyond the range of 64 bits"};
    return;
  }
  put(key, std::to_string(value), outcome);
  answer_first(from, one_number(value), outcome);
}

void StoreTable::wait(ConnectionId from, const StoreRequest& request, StoreOutcome& outcome) {
  std::unordered_set<std::string> missing;
  for (const std::string& key : request.keys) {
    if (!values_.contains(key)) missing.insert(key);
  }
  if (missing.empty()) {
    outcome.replies.push_back({from, one_byte(wire::kStoreStopWaiting)});
    return;
  }
  for (const std::string& key : missing) waiters_[key].insert(from);
  missing_.emplace(from, std::move(missing));
}

void StoreTable::append(ConnectionId, const StoreRequest& request, StoreOutcome& outcome) {
  const auto entry = values_.find(request.keys[0]);
  const std::size_t before = entry == values_.end() ? 0 : entry->second.size();
  if (before + request.values[0].size() > limits::kStoreValueBytes) {
    outcome.violation =
        wire::StoreViolation{"APPEND to a value of more than " + std::to_string(limits::kStoreValueBytes) + " bytes"};
    return;
  }
  std::string value = entry == values_.end() ? std::string() : entry->second;
  value += request.values[0];
  put(request.keys[0], std::move(value), outcome);
}

void StoreTable::delete_key(ConnectionId from, const StoreRequest& request, StoreOutcome& outcome) {
  const auto entry = values_.find(request.keys[0]);
  const bool existed = entry != values_.end();
  if (existed) {
    bytes_ -= entry->first.size() + entry->second.size();
    values_.erase(entry);
  }
  outcome.replies.push_back({from, one_number(existed ? 1 : 0)});
}

}  // namespace ddp::store
