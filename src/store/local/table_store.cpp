#include "store/local/table_store.h"

#include <ddp/error.h>

#include "base/text.h"
#include "store/key_names.h"

namespace ddp::store {

using std::chrono::milliseconds;
using Kind = TableChange::Kind;

void TableStore::set(const std::string& key, std::string_view value) {
  change([&](const LocalTable&) { return Changes{{Kind::set, key, std::string(value)}}; });
}

std::vector<std::string> TableStore::multi_get(std::span<const std::string> keys) {
  std::vector<std::string> values;
  wait_and_read(keys, timeout_, [&](const LocalTable& table) {
    for (const std::string& key : keys) {
      const std::string* value = table.value(key);
      values.push_back(value == nullptr ? std::string() : *value);  // a key that has only a queue has no value
    }
  });
  return values;
}

std::int64_t TableStore::add(const std::string& key, std::int64_t delta) {
  std::int64_t sum = 0;
  change([&](const LocalTable& table) {
    if (__builtin_add_overflow(table.number(key), delta, &sum)) {
      throw Error(ErrorKind::invalid_argument, "add: the value of key '" + key + "' would leave the range of 64 bits");
    }
    return Changes{{Kind::set, key, std::to_string(sum)}};
  });
  return sum;
}

std::string TableStore::compare_set(const std::string& key, std::string_view expected, std::string_view desired) {
  std::string standing(desired);
  change([&](const LocalTable& table) {
    const std::string* current = table.value(key);
    if ((current == nullptr ? std::string_view() : std::string_view(*current)) == expected) {
      return Changes{{Kind::set, key, standing}};
    }
    standing = current == nullptr ? std::string(expected) : *current;
    return Changes{};
  });
  return standing;
}

bool TableStore::check(std::span<const std::string> keys) {
  bool result = false;
  read([&](const LocalTable& table) { result = table.all_exist(keys); });
  return result;
}

void TableStore::wait(std::span<const std::string> keys, milliseconds timeout) {
  wait_and_read(keys, timeout, [](const LocalTable&) {});
}

bool TableStore::delete_key(const std::string& key) {
  bool existed = false;
  change([&](const LocalTable& table) {
    existed = table.value(key) != nullptr;
    return existed ? Changes{{Kind::erase, key, ""}} : Changes{};
  });
  return existed;
}

void TableStore::append(const std::string& key, std::string_view value) {
  change([&](const LocalTable&) { return Changes{{Kind::append, key, std::string(value)}}; });
}

void TableStore::multi_set(std::span<const std::string> keys, std::span<const std::string> values) {
  require_pairs(keys, values);
  change([&](const LocalTable&) {
    Changes changes;
    for (std::size_t i = 0; i < keys.size(); ++i) changes.push_back({Kind::set, keys[i], values[i]});
    return changes;
  });
}

std::int64_t TableStore::num_keys() {
  std::int64_t count = 0;
  read([&](const LocalTable& table) { count = std::ssize(table.values()); });
  return count;
}

std::vector<std::string> TableStore::list_keys() {
  std::vector<std::string> keys;
  read([&](const LocalTable& table) {
    for (const auto& [key, value] : table.values()) keys.push_back(key);
  });
  return keys;
}

void TableStore::queue_push(const std::string& key, std::string_view value) {
  change([&](const LocalTable&) { return Changes{{Kind::push, key, std::string(value)}}; });
}

std::string TableStore::queue_pop(const std::string& key, milliseconds timeout) {
  std::string value;
  const bool came = take_turn([&](const LocalTable& table) { return table.queue(key) != nullptr; }, timeout, true,
                              [&](const LocalTable& table) {
                                value = table.queue(key)->front();
                                return Changes{{Kind::pop, key, ""}};
                              });
  if (came) return value;
  throw Error(ErrorKind::timeout,
              "waited " + base::human_duration(timeout) + " for a value in the queue of key '" + key + "'" + place());
}

std::optional<std::string> TableStore::try_queue_pop(const std::string& key) {
  std::optional<std::string> value;
  change([&](const LocalTable& table) {
    const auto* queue = table.queue(key);
    if (queue == nullptr) return Changes{};
    value = queue->front();
    return Changes{{Kind::pop, key, ""}};
  });
  return value;
}

std::int64_t TableStore::queue_len(const std::string& key) {
  std::int64_t length = 0;
  read([&](const LocalTable& table) {
    if (const auto* queue = table.queue(key)) length = std::ssize(*queue);
  });
  return length;
}

void TableStore::barrier(const std::string& key, int world_size, milliseconds timeout) {
  if (world_size < 1)
    throw Error(ErrorKind::invalid_argument, "barrier '" + key + "': the world size must be 1 or more");
  add(key, 1);
  const auto all_came = [&](const LocalTable& table) { return table.number(key) >= world_size; };
  if (read_when(all_came, timeout, [](const LocalTable&) {})) return;
  std::int64_t count = 0;
  read([&](const LocalTable& table) { count = table.number(key); });
  throw Error(ErrorKind::timeout, "waited " + base::human_duration(timeout) + " at barrier '" + key + "'" + place() +
                                      ": " + std::to_string(count) + " of " + std::to_string(world_size) +
                                      " ranks arrived");
}

void TableStore::wait_and_read(std::span<const std::string> keys, milliseconds timeout, const Reader& read) {
  if (read_when([&](const LocalTable& table) { return table.all_exist(keys); }, timeout, read)) return;
  std::vector<std::string> absent;
  this->read([&](const LocalTable& table) {
    for (const std::string& key : keys) {
      if (!table.exists(key)) absent.push_back(key);
    }
  });
  throw Error(ErrorKind::timeout, "waited " + base::human_duration(timeout) + " for " +
                                      name_keys(absent.empty() ? keys : std::span<const std::string>(absent)) +
                                      place());
}

}  // namespace ddp::store
