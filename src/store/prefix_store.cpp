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
