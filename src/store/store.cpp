// These are the default implementations of Store's functions, made of the six that every store has.
#include <ddp/error.h>
#include <ddp/store.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "base/text.h"
#include "store/key_names.h"
#include "store/limits.h"

namespace ddp {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// `failure` describes what did not happen in time.
void wait_until(const std::function<bool()>& ready, milliseconds timeout, const std::function<std::string()>& failure) {
  const auto end = steady_clock::now() + timeout;
  milliseconds pause(1);
  while (!ready()) {
    if (steady_clock::now() >= end) {
      throw Error(ErrorKind::timeout, failure() + " within " + base::human_duration(timeout));
    }
    std::this_thread::sleep_for(pause);
    pause = std::min<milliseconds>(pause * 2, limits::kOwnStorePause);
  }
}

// These keys hold the parts of a key's queue: the number of values pushed, the number popped, and each value by its
// number. A mark precedes each value.
const std::string kMark = "=";
const std::string kNone = "none";
std::string pushed(const std::string& key) {
  return key + "/queue/pushed";
}
std::string popped(const std::string& key) {
  return key + "/queue/popped";
}
std::string value_of(const std::string& key, std::int64_t number) {
  return key + "/queue/" + std::to_string(number);
}

}  // namespace

Store::~Store() = default;

milliseconds Store::timeout() const {
  return std::chrono::minutes(5);
}

std::vector<std::string> Store::multi_get(std::span<const std::string> keys) {
  std::vector<std::string> values;
  for (const std::string& key : keys) values.push_back(get(key));
  return values;
}

void Store::wait(std::span<const std::string> keys, milliseconds timeout) {
  const auto missing = [&] {
    std::vector<std::string> names;
    for (const std::string& key : keys) {
      if (!check({&key, 1})) names.push_back("'" + key + "'");
    }
    return base::join(names, ", ");
  };
  wait_until([&] { return check(keys); }, timeout, [&] { return "no rank set " + missing(); });
}

// compare_set() does not show which client set an equal value, so it cannot implement append().
void Store::append(const std::string& key, std::string_view /*value*/) {
  throw Error(ErrorKind::unavailable, "this store cannot lengthen the value of '" + key + "'");
}

void Store::multi_set(std::span<const std::string> keys, std::span<const std::string> values) {
  store::require_pairs(keys, values);
  for (std::size_t i = 0; i < keys.size(); ++i) set(keys[i], values[i]);
}

std::int64_t Store::num_keys() {
  return static_cast<std::int64_t>(list_keys().size());
}

std::vector<std::string> Store::list_keys() {
  throw Error(ErrorKind::unavailable, "this store cannot list its keys");
}

void Store::queue_push(const std::string& key, std::string_view value) {
  set(value_of(key, add(pushed(key), 1)), kMark + std::string(value));
}

// The caller whose delete_key() finds the value gets it. If a number has no value, another caller is pushing or
// popping.
std::optional<std::string> Store::try_queue_pop(const std::string& key) {
  const std::int64_t last = add(pushed(key), 0);
  for (std::int64_t number = add(popped(key), 0) + 1; number <= last; ++number) {
    const std::string place = value_of(key, number);
    // Reads the value without waiting: no value equals kNone, because each has a mark.
    const std::string value = compare_set(place, kNone, kNone);
    if (value == kNone || !delete_key(place)) continue;
    add(popped(key), 1);
    return value.substr(kMark.size());
  }
  return std::nullopt;
}

std::string Store::queue_pop(const std::string& key, milliseconds timeout) {
  std::optional<std::string> value;
  wait_until([&] { return (value = try_queue_pop(key)).has_value(); }, timeout,
             [&] { return "no rank pushed to the queue '" + key + "'"; });
  return *value;
}

std::int64_t Store::queue_len(const std::string& key) {
  return add(pushed(key), 0) - add(popped(key), 0);
}

void Store::barrier(const std::string& key, int world_size, milliseconds timeout) {
  if (world_size < 1)
    throw Error(ErrorKind::invalid_argument, "barrier '" + key + "': the world size must be 1 or more");
  add(key, 1);
  wait_until([&] { return add(key, 0) >= world_size; }, timeout,
             [&] {
               return "only " + std::to_string(add(key, 0)) + " of " + std::to_string(world_size) +
                      " ranks arrived at the barrier '" + key + "'";
             });
}

}  // namespace ddp
