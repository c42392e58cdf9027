#include <ddp/error.h>
#include <ddp/store.h>

#include <condition_variable>
#include <map>
#include <mutex>

#include "base/text.h"

namespace ddp {
namespace {

using std::chrono::milliseconds;

class MemoryStore : public Store {
 public:
  explicit MemoryStore(milliseconds timeout) : timeout_(timeout) {}

  void set(const std::string& key, std::string_view value) override {
    const std::lock_guard lock(mutex_);
    put(key, std::string(value));
  }

  std::string get(const std::string& key) override { return multi_get(std::span(&key, 1)).front(); }

  std::vector<std::string> multi_get(std::span<const std::string> keys) override {
    std::unique_lock lock(mutex_);
    wait_locked(lock, keys, timeout_);
    std::vector<std::string> values;
    for (const std::string& key : keys) values.push_back(values_.at(key));
    return values;
  }

  std::int64_t add(const std::string& key, std::int64_t delta) override {
    const std::lock_guard lock(mutex_);
    std::int64_t value = 0;
    if (const auto entry = values_.find(key); entry != values_.end()) {
      const auto number = base::parse_integer(entry->second, INT64_MIN, INT64_MAX);
      if (!number) throw Error(ErrorKind::invalid_argument, "add: the value of key '" + key + "' is not a number");
      value = *number;
    }
    if (__builtin_add_overflow(value, delta, &value)) {
      throw Error(ErrorKind::invalid_argument, "add: the value of key '" + key + "' would leave the range of 64 bits");
    }
    put(key, std::to_string(value));
    return value;
  }

  std::string compare_set(const std::string& key, std::string_view expected, std::string_view desired) override {
    const std::lock_guard lock(mutex_);
    const auto entry = values_.find(key);
    const std::string_view current = entry == values_.end() ? std::string_view() : std::string_view(entry->second);
    if (current != expected) return std::string(entry == values_.end() ? expected : current);
    put(key, std::string(desired));
    return std::string(desired);
  }

  bool check(std::span<const std::string> keys) override {
    const std::lock_guard lock(mutex_);
    return all_exist(keys);
  }

  void wait(std::span<const std::string> keys, milliseconds timeout) override {
    std::unique_lock lock(mutex_);
    wait_locked(lock, keys, timeout);
  }

  bool delete_key(const std::string& key) override {
    const std::lock_guard lock(mutex_);
    return values_.erase(key) > 0;
  }

  milliseconds timeout() const override { return timeout_; }

 private:
  void put(const std::string& key, std::string value) {
    values_[key] = std::move(value);
    changed_.notify_all();
  }

  bool all_exist(std::span<const std::string> keys) const {
    for (const std::string& key : keys) {
      if (!values_.contains(key)) return false;
    }
    return true;
  }

  void wait_locked(std::unique_lock<std::mutex>& lock, std::span<const std::string> keys, milliseconds timeout) {
    if (changed_.wait_for(lock, timeout, [&] { return all_exist(keys); })) return;
    for (const std::string& key : keys) {
      if (values_.contains(key)) continue;
      throw Error(ErrorKind::timeout, "waited " + base::human_duration(timeout) + " for key '" + key + "'");
    }
  }

  const milliseconds timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

}  // namespace

std::shared_ptr<Store> make_memory_store(milliseconds timeout) {
  return std::make_shared<MemoryStore>(timeout);
}

}  // namespace ddp
