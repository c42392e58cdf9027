#include "store/local/local_table.h"

#include <ddp/error.h>

#include <algorithm>

#include "base/text.h"

namespace ddp::store {

void LocalTable::apply(const TableChange& change) {
  switch (change.kind) {
    case TableChange::Kind::set:
      values_[change.key] = change.value;
      break;
    case TableChange::Kind::append:
      values_[change.key] += change.value;
      break;
    case TableChange::Kind::erase:
      values_.erase(change.key);
      break;
    case TableChange::Kind::push:
      queues_[change.key].push_back(change.value);
      break;
    case TableChange::Kind::pop:
      if (const auto entry = queues_.find(change.key); entry != queues_.end()) {
        entry->second.pop_front();
        if (entry->second.empty()) queues_.erase(entry);
      }
      break;
  }
}

bool LocalTable::all_exist(std::span<const std::string> keys) const {
  return std::all_of(keys.begin(), keys.end(), [&](const std::string& key) { return exists(key); });
}

const std::string* LocalTable::value(const std::string& key) const {
  const auto entry = values_.find(key);
  return entry == values_.end() ? nullptr : &entry->second;
}

const std::deque<std::string>* LocalTable::queue(const std::string& key) const {
  const auto entry = queues_.find(key);
  return entry == queues_.end() ? nullptr : &entry->second;
}

std::int64_t LocalTable::number(const std::string& key) const {
  const std::string* text = value(key);
  if (text == nullptr) return 0;
  const auto number = base::parse_integer(*text, INT64_MIN, INT64_MAX);
  if (!number) throw Error(ErrorKind::invalid_argument, "the value of key '" + key + "' is not a number");
  return *number;
}

}  // namespace ddp::store
