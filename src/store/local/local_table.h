// LocalTable: the values and queues of a store that lies in this process. What may happen to them is one of a few
// changes, so that a log of changes is the table as well.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>

namespace ddp::store {

struct TableChange {
  enum class Kind : std::uint8_t { set = 1, append = 2, erase = 3, push = 4, pop = 5 };
  Kind kind = Kind::set;
  std::string key;
  std::string value;  // set, append, push

  friend bool operator==(const TableChange&, const TableChange&) = default;
};

// Not thread-safe.
class LocalTable {
 public:
  // Erasing what is absent and popping from an empty queue change nothing.
  void apply(const TableChange& change);

  // With a value, or with something in its queue.
  bool exists(const std::string& key) const { return values_.contains(key) || queues_.contains(key); }
  bool all_exist(std::span<const std::string> keys) const;

  // Null if there is none.
  const std::string* value(const std::string& key) const;
  // Empty queues are absent: null.
  const std::deque<std::string>* queue(const std::string& key) const;

  // The value as a number, 0 if absent. Throws invalid_argument, naming the key, if it is none.
  std::int64_t number(const std::string& key) const;

  const std::map<std::string, std::string>& values() const { return values_; }

 private:
  std::map<std::string, std::string> values_;
  std::map<std::string, std::deque<std::string>> queues_;
};

}  // namespace ddp::store
