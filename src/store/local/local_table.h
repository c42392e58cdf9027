// LocalTable holds the values and queues of a store inside this process. It changes only by a few kinds of changes, so
// that a log of changes can rebuild it.
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
  std::string value;  // for set, append and push

  friend bool operator==(const TableChange&, const TableChange&) = default;
};

// It is not thread-safe.
class LocalTable {
 public:
  // Erasing an absent key and popping from an empty queue change nothing.
  void apply(const TableChange& change);

  // Returns whether the key has a value or a queue that is not empty.
  bool exists(const std::string& key) const { return values_.contains(key) || queues_.contains(key); }
  bool all_exist(std::span<const std::string> keys) const;

  // Returns null if there is no value.
  const std::string* value(const std::string& key) const;
  // Returns null if the queue is empty.
  const std::deque<std::string>* queue(const std::string& key) const;

  // Returns the value as a number, or 0 if it is absent. Throws invalid_argument, naming the key, if the value is no
  // number.
  std::int64_t number(const std::string& key) const;

  const std::map<std::string, std::string>& values() const { return values_; }

 private:
  std::map<std::string, std::string> values_;
  std::map<std::string, std::deque<std::string>> queues_;
};

}  // namespace ddp::store
