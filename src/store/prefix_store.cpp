#include <ddp/store.h>

namespace ddp {
namespace {

class PrefixStore : public Store {
 public:
  PrefixStore(std::string prefix, std::shared_ptr<Store> store)
      : prefix_(std::move(prefix) + "/"), store_(std::move(store)) {}

  void set(const std::string& key, std::string_view value) override { store_->set(prefix_ + key, value); }
  std::string get(const std::string& key) override { return store_->get(prefix_ + key); }
  std::vector<std::string> multi_get(std::span<const std::string> keys) override {
    return store_->multi_get(prefixed(keys));
  }
  std::int64_t add(const std::string& key, std::int64_t delta) override { return store_->add(prefix_ + key, delta); }
  std::string compare_set(const std::string& key, std::string_view expected, std::string_view desired) override {
    return store_->compare_set(prefix_ + key, expected, desired);
  }
  bool check(std::span<const std::string> keys) override { return store_->check(prefixed(keys)); }
  void wait(std::span<const std::string> keys, std::chrono::milliseconds timeout) override {
    store_->wait(prefixed(keys), timeout);
  }
  bool delete_key(const std::string& key) override { return store_->delete_key(prefix_ + key); }
  std::chrono::milliseconds timeout() const override { return store_->timeout(); }
  void append(const std::string& key, std::string_view value) override { store_->append(prefix_ + key, value); }
  void multi_set(std::span<const std::string> keys, std::span<const std::string> values) override {
    store_->multi_set(prefixed(keys), values);
  }
  std::vector<std::string> list_keys() override {
    std::vector<std::string> result;
    for (const std::string& key : store_->list_keys()) {
      if (key.starts_with(prefix_)) result.push_back(key.substr(prefix_.size()));
    }
    return result;
  }
  void queue_push(const std::string& key, std::string_view value) override { store_->queue_push(prefix_ + key, value); }
  std::string queue_pop(const std::string& key, std::chrono::milliseconds timeout) override {
    return store_->queue_pop(prefix_ + key, timeout);
  }
  std::optional<std::string> try_queue_pop(const std::string& key) override {
    return store_->try_queue_pop(prefix_ + key);
  }
  std::int64_t queue_len(const std::string& key) override { return store_->queue_len(prefix_ + key); }
  void barrier(const std::string& key, int world_size, std::chrono::milliseconds timeout) override {
    store_->barrier(prefix_ + key, world_size, timeout);
  }

 private:
  std::vector<std::string> prefixed(std::span<const std::string> keys) const {
    std::vector<std::string> result;
    for (const std::string& key : keys) result.push_back(prefix_ + key);
    return result;
  }

  const std::string prefix_;
  const std::shared_ptr<Store> store_;
};

}  // namespace

std::shared_ptr<Store> make_prefix_store(std::string prefix, std::shared_ptr<Store> store) {
  return std::make_shared<PrefixStore>(std::move(prefix), std::move(store));
}

}  // namespace ddp
